from sciops._command import command
from studies.lipschitz_fuzz import PRESETS, run

command(run, PRESETS)
