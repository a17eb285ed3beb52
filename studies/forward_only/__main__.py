from sciops.commands.command_line import command
from studies.forward_only import PRESETS, run

command(run, PRESETS)
