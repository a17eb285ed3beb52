from sciops.commands.command_line import command
from studies.operator_fairness import PRESETS, run

command(run, PRESETS)
