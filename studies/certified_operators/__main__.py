from sciops.commands.command_line import command
from studies.certified_operators import PRESETS, run

command(run, PRESETS)
