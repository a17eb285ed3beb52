from sciops._command import command
from studies.crash_recovery import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
