from sciops.commands.command_line import command
from studies.layerwise_fairness import PRESETS, run

command(run, PRESETS)
