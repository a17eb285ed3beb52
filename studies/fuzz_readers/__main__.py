from sciops.commands.command_line import command
from studies.fuzz_readers import PRESETS, run

command(run, PRESETS)
