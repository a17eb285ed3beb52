from sciops.command import command
from studies.lazy_loading import PRESETS, run

command(run, PRESETS)
