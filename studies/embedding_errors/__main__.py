from sciops.commands.command_line import command
from studies.embedding_errors import PRESETS, run

command(run, PRESETS)
