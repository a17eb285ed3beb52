from sciops.command import command
from studies.gap_sentences import PRESETS, run

command(run, PRESETS)
