from sciops.command import command
from studies.fuzz_readers import PRESETS, run

command(run, PRESETS)
