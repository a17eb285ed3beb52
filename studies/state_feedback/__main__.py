from sciops.commands.command_line import command
from studies.state_feedback import PRESETS, run

command(run, PRESETS)
