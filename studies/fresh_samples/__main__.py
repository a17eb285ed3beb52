from sciops.commands.command_line import command
from studies.fresh_samples import PRESETS, run

command(run, PRESETS)
