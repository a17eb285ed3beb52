from sciops.commands.command_line import command
from studies.device_equality import PRESETS, run

command(run, PRESETS)
