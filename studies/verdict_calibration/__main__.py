from sciops.command import command
from studies.verdict_calibration import PRESETS, run

command(run, PRESETS)
