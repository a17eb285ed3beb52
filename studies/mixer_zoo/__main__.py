from sciops.command import command
from studies.mixer_zoo import PRESETS, run

command(run, PRESETS)
