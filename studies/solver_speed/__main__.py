from sciops.commands.command_line import command
from studies.solver_speed import PRESETS, run

command(run, PRESETS)
