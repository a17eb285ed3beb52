from sciops.commands.command_line import command
from studies.highway_depth import PRESETS, run

command(run, PRESETS)
