from sciops.commands.command_line import command
from studies.stepper_speed import PRESETS, run

command(run, PRESETS)
