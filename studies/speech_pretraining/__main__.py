from sciops.commands.command_line import command
from studies.speech_pretraining import PRESETS, run

command(run, PRESETS)
