from sciops.command import command
from studies.train import PRESETS, run

command(run, PRESETS)
