from sciops.commands.command_line import command
from studies.lazy_loading import PRESETS, run

command(run, PRESETS)
