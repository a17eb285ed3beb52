"""``python -m sciops`` is the `sciops` command."""

from sciops.cli import main

if __name__ == "__main__":
    main()
