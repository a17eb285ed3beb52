from sciops.command import command
from studies.accuracy_for_time import PRESETS, run

command(run, PRESETS)
