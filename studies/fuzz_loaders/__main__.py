from sciops.commands.command_line import command
from studies.fuzz_loaders import PRESETS, run

command(run, PRESETS)
