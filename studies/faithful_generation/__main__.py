from sciops.commands.command_line import command
from studies.faithful_generation import PRESETS, run

command(run, PRESETS)
