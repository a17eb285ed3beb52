from sciops.commands.command_line import command
from studies.token_mixing import PRESETS, run

command(run, PRESETS)
