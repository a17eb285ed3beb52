from sciops._command import command
from studies.fuzz_readers import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
