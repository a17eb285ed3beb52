from sciops.command import command
from studies.generation_speed import PRESETS, run

command(run, PRESETS)
