from sciops.commands.command_line import command
from studies.conditional_quantization import PRESETS, run

command(run, PRESETS)
