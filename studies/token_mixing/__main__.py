from sciops._command import command
from studies.token_mixing import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
