from sciops.command import command
from studies.spectral_norms import PRESETS, run

command(run, PRESETS)
