from sciops.command import command
from studies.long_sequences import PRESETS, run

command(run, PRESETS)
