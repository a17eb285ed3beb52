from sciops.commands.command_line import command
from studies.multipole_levels import PRESETS, run

command(run, PRESETS)
