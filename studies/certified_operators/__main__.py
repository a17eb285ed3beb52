from sciops._command import command
from studies.certified_operators import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
