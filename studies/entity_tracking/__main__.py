from sciops._command import command
from studies.entity_tracking import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
