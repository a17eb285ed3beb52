from sciops._command import command
from studies.resolution_shift import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
