from sciops.commands.command_line import command
from studies.cluster_plan import PRESETS, run

command(run, PRESETS)
