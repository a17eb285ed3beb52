from sciops.command import command
from studies.certified_operators import PRESETS, run

command(run, PRESETS)
