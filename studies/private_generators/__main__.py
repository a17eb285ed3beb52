from sciops.commands.command_line import command
from studies.private_generators import PRESETS, run

command(run, PRESETS)
