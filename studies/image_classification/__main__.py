from sciops.commands.command_line import command
from studies.image_classification import PRESETS, run

command(run, PRESETS)
