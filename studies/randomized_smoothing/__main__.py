from sciops.command import command
from studies.randomized_smoothing import PRESETS, run

command(run, PRESETS)
