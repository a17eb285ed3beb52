from sciops.command import command
from studies.highway_backprop import PRESETS, run

command(run, PRESETS)
