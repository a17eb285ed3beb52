from sciops.commands.command_line import command
from studies.zoo import PRESETS, run

command(run, PRESETS)
