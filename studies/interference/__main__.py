from sciops.commands.command_line import command
from studies.interference import PRESETS, run

command(run, PRESETS)
