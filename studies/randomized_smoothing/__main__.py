from sciops.commands.command_line import command
from studies.randomized_smoothing import PRESETS, run

command(run, PRESETS)
