from sciops.commands.command_line import command
from studies.verdict_calibration import PRESETS, run

command(run, PRESETS)
