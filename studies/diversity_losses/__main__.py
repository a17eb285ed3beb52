from sciops.commands.command_line import command
from studies.diversity_losses import PRESETS, run

command(run, PRESETS)
