from sciops.commands.command_line import command
from studies.gap_sentences import PRESETS, run

command(run, PRESETS)
