from sciops.command import command
from studies.polynomial_mixer import PRESETS, run

command(run, PRESETS)
