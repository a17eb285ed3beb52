from sciops.command import command
from studies.speech_pretraining import PRESETS, run

command(run, PRESETS)
