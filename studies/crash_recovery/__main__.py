from sciops.commands.command_line import command
from studies.crash_recovery import PRESETS, run

command(run, PRESETS)
