from sciops.commands.command_line import command
from studies.benchmarks import PRESETS, run

command(run, PRESETS)
