from sciops.commands.command_line import command
from studies.distributed_training import PRESETS, run

command(run, PRESETS)
