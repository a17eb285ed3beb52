from sciops.command import command
from studies.crash_recovery import PRESETS, run

command(run, PRESETS)
