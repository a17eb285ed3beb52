from sciops.command import command
from studies.resolution_shift import PRESETS, run

command(run, PRESETS)
