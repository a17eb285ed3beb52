from sciops._command import command
from studies.accuracy_for_time import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
