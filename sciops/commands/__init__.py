"""Command lines: one flag for each field of a frozen dataclass (`command_line`), and the commands that take files."""
