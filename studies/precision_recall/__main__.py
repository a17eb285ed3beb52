from sciops.commands.command_line import command
from studies.precision_recall import PRESETS, run

command(run, PRESETS)
