from sciops.command import command
from studies.distributed_training import PRESETS, run

command(run, PRESETS)
