from sciops.commands.command_line import command
from studies.spectral_norms import PRESETS, run

command(run, PRESETS)
