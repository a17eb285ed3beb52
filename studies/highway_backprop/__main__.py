from sciops.commands.command_line import command
from studies.highway_backprop import PRESETS, run

command(run, PRESETS)
