from sciops.commands.command_line import command
from studies.speech_fairness import PRESETS, run

command(run, PRESETS)
