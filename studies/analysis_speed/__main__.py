from sciops.commands.command_line import command
from studies.analysis_speed import PRESETS, run

command(run, PRESETS)
