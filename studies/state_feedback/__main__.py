from sciops.command import command
from studies.state_feedback import PRESETS, run

command(run, PRESETS)
