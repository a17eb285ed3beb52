from sciops.command import command
from studies.lipschitz_fuzz import PRESETS, run

command(run, PRESETS)
