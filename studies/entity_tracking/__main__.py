from sciops.command import command
from studies.entity_tracking import PRESETS, run

command(run, PRESETS)
