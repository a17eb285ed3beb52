from sciops.command import command
from studies.program_transforms import PRESETS, run

command(run, PRESETS)
