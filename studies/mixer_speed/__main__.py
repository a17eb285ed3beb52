from sciops.commands.command_line import command
from studies.mixer_speed import PRESETS, run

command(run, PRESETS)
