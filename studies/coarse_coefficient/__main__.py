from sciops.commands.command_line import command
from studies.coarse_coefficient import PRESETS, run

command(run, PRESETS)
