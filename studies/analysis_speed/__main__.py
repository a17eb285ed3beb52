from sciops.command import command
from studies.analysis_speed import PRESETS, run

command(run, PRESETS)
