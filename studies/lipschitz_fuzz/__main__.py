from sciops._command import command
from studies.lipschitz_fuzz import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
