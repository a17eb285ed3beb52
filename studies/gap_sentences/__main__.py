from sciops._command import command
from studies.gap_sentences import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
