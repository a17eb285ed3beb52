from sciops._command import command
from studies.distributed_training import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
