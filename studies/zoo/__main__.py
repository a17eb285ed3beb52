from sciops.commands.command_line import command
from studies.zoo import PRESETS, run

if __name__ == "__main__":
    command(run, PRESETS)
