from sciops.commands.command_line import command
from studies.program_transforms import PRESETS, run

command(run, PRESETS)
