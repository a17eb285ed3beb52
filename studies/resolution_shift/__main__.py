from sciops.commands.command_line import command
from studies.resolution_shift import PRESETS, run

command(run, PRESETS)
