from sciops.commands.command_line import command
from studies.polynomial_mixer import PRESETS, run

command(run, PRESETS)
