from sciops.commands.command_line import command
from studies.generation_speed import PRESETS, run

command(run, PRESETS)
