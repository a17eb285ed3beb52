from sciops.command import command
from studies.benchmarks import PRESETS, run

command(run, PRESETS)
