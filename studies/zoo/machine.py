"""What a card says of the machine that a model was trained on."""

from __future__ import annotations

from typing import Any

from sciops.runs import environment

_PACKAGES = ("sciops", "torch", "numpy")


def this_machine() -> dict[str, Any]:
    """{"processor", "versions"} of this process, as fields of a `sciops.zoo.ModelCard`."""
    here = environment()
    threads = here["threads"]
    return {
        "processor": f"{threads} thread{'s' * (threads > 1)}, {here['machine']}",
        "versions": {package: here["versions"][package] for package in _PACKAGES},
    }
