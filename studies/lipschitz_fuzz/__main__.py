from sciops.commands.command_line import command
from studies.lipschitz_fuzz import PRESETS, run

command(run, PRESETS)
