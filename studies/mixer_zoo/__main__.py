from sciops.commands.command_line import command
from studies.mixer_zoo import PRESETS, run

command(run, PRESETS)
