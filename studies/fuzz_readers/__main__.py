from sciops._command import command
from studies.fuzz_readers import PRESETS, run

command(run, PRESETS)
