from sciops._command import command
from studies.benchmarks import PRESETS, run

command(run, PRESETS)
