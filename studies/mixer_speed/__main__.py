from sciops.command import command
from studies.mixer_speed import PRESETS, run

command(run, PRESETS)
