from sciops._command import command
from studies.polynomial_mixer import PRESETS, run

command(run, PRESETS)
