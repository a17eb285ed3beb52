from sciops.command import command
from studies.fuzz_loaders import PRESETS, run

command(run, PRESETS)
