from sciops._command import command
from studies.image_classification import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
