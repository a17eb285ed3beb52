from sciops.command import command
from studies.token_mixing import PRESETS, run

command(run, PRESETS)
