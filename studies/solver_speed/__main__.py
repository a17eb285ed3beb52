from sciops.command import command
from studies.solver_speed import PRESETS, run

command(run, PRESETS)
