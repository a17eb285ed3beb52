from sciops._command import command
from studies.spectral_norms import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
