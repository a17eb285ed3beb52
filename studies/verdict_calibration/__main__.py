from sciops._command import command
from studies.verdict_calibration import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
