from sciops._command import command
from studies.train import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
