from sciops.command import command
from studies.image_classification import PRESETS, run

command(run, PRESETS)
