from sciops.commands.command_line import command
from studies.train import PRESETS, run

command(run, PRESETS)
