from sciops.commands.command_line import command
from studies.long_sequences import PRESETS, run

command(run, PRESETS)
