from sciops._command import command
from studies.speech_pretraining import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
