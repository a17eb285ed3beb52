from sciops.command import command
from studies.forward_only import PRESETS, run

command(run, PRESETS)
