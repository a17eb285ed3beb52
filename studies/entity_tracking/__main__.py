from sciops.commands.command_line import command
from studies.entity_tracking import PRESETS, run

command(run, PRESETS)
