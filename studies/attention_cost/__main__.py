from sciops.command import command
from studies.attention_cost import PRESETS, run

command(run, PRESETS)
