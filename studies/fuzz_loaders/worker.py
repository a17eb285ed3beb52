"""Loads files one after another, as `studies.kit.fuzzing.worker` opens them: ``python -m studies.fuzz_loaders.worker``.

The "layout" of a line is a kind of `studies.fuzz_loaders.files`, after a colon the digest of what was saved; without
one, a file named "kind" beside the path says which it is. What is loaded with another digest is "silent" damage.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from studies.fuzz_loaders.files import content_of, makers
from studies.kit.fuzzing.worker import attempt, serve


class Silent(Exception):
    """A damaged file that was loaded with another content."""


def main() -> None:
    import warnings

    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    answer, sys.stdout = sys.stdout, sys.stderr
    for kind, make in makers().items():  # libraries are loaded before the clock starts
        with tempfile.TemporaryDirectory() as folder:
            content_of(make(Path(folder)), kind)
    serve(load, answer)


def load(path: Path, layout: str | None) -> dict[str, object]:
    """What came of the file; see `studies.kit.fuzzing.worker.attempt`."""
    said = attempt(path, layout, use=_use)
    if said["outcome"] == "crash" and str(said["detail"]).startswith("Silent "):
        said["outcome"] = "silent"
    return said


def _use(path: Path, layout: str | None) -> str:
    kind, _, expected = (layout or (path.parent / "kind").read_text()).partition(":")
    found = content_of(path, kind)
    if expected and found and found != expected:
        raise Silent(f"{kind} of other content")
    return kind


if __name__ == "__main__":
    main()
