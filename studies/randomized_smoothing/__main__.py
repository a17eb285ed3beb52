from sciops._command import command
from studies.randomized_smoothing import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
