from sciops._command import command
from studies.highway_backprop import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
