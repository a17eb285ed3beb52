from sciops.commands.command_line import command
from studies.attention_cost import PRESETS, run

command(run, PRESETS)
