from sciops._command import command
from studies.forward_only import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
