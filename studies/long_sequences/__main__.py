from sciops._command import command
from studies.long_sequences import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
