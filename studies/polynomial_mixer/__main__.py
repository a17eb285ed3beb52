from sciops._command import command
from studies.polynomial_mixer import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
