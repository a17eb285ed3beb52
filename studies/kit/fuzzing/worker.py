"""Opens files one after another, each within bounds, and reports each: ``python -m studies.kit.fuzzing.worker``.

A line on the standard input is JSON, {"path", "layout" (name of a reader, or null)}; so is the answer, {"outcome",
"detail", "seconds", "computing", "megabytes"}. Seconds are those the file took, without those this process stood in the
queue for a processor: on a busy machine these are the machine's and not the file's. Sleeping and waiting for a disk
count. Computing is processor time; it and the memory are of this process and of the one that looks at HDF5 files.

A share of the files is opened in every way, and all must come to one verdict: what `open_dataset` refuses is refused by
`doctor`, `validate`, `convert` and `load_splits`, and none of these runs out of a budget with a file that it opens.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import traceback
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

_EXPECTED = (ValueError, OSError, ImportError)
_LONGEST = 1500  # characters of a message
_SCREENS = 20_000  # characters of a description
_SHARE = 4  # one file of this many is opened in every way


def main() -> None:
    import warnings

    import torch

    from sciops.datasets.formats.samples import SAMPLES, write_sample

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    answer = sys.stdout
    sys.stdout = sys.stderr
    # parsers are loaded before the clock starts
    with tempfile.TemporaryDirectory() as folder:
        for i, name in enumerate(SAMPLES):
            if name in ("li2020", "neuralop", "npz", "jax-cfd", "jax-cfd-netcdf3"):
                attempt(write_sample(name, Path(folder, str(i))), None)
    serve(attempt, answer)


def serve(attempt: Callable[[Path, str | None], dict[str, object]], answer: TextIO) -> None:
    """Answers line after line, with no more memory than the first argument of the command says."""
    if len(sys.argv) > 1:
        _limit(float(sys.argv[1]))
    print(json.dumps({"ready": True}), file=answer, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        print(json.dumps(attempt(Path(job["path"]), job["layout"])), file=answer, flush=True)


def attempt(
    path: Path, layout: str | None, *, use: Callable[[Path, str | None], str] | None = None
) -> dict[str, object]:
    """Opens the file, reads a sample of every field, and what `sciops info` and `sciops validate` say of it."""
    _forget_peak()
    before, computed = {number: _megabytes("VmRSS", number) for number in _processes()}, _computed()
    queued, started = sum(waited("self").values()), time.perf_counter()
    try:
        outcome, detail = "opened", (use or _use)(path, layout)
    except _EXPECTED as error:
        text = str(error)
        sound = clean(text) and 0 < len(text) <= _LONGEST
        outcome, detail = ("refused", text) if sound else ("bad message", ascii(text)[:_LONGEST])
    except MemoryError as error:
        outcome, detail = "memory", str(error)
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split())[:200]
        outcome, detail = "crash", f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {text}"
    # a process that was ended meanwhile has taken its queue with it: the watch, which looks often, knows better
    seconds = time.perf_counter() - started - max(0.0, sum(waited("self").values()) - queued)
    if use is None and outcome in ("opened", "refused") and opened_in_every_way(path):
        apart = _other_verdict(path)
        outcome, detail = ("two verdicts", apart[:_LONGEST]) if apart else (outcome, detail)
    used = [_megabytes("VmHWM", number) - before.get(number, 0.0) for number in _processes()]
    return {
        "outcome": outcome,
        "detail": detail,
        "seconds": round(max(seconds, 0.0), 4),
        "computing": round(_computed() - computed, 3),
        "megabytes": round(sum(used), 1),
    }


def opened_in_every_way(path: Path) -> bool:
    """Whether the file is one of the share that is opened by all verbs; its name decides."""
    return zlib.crc32(os.fsencode(path.parent.name)) % _SHARE == 0


def _other_verdict(path: Path) -> str:
    """What is opened in one way and refused in another; "" where all agree."""
    from sciops.datasets import convert, load_splits, open_dataset, validate
    from sciops.doctor import doctor

    try:
        with open_dataset(path) as dataset:
            refused, windows = "", {} if dataset.attrs.get("task") == "trajectory" else None
    except _EXPECTED as error:
        refused, windows = str(error), None

    def examine() -> None:
        report, well = doctor(path)
        if not well:
            raise ValueError(report)

    with tempfile.TemporaryDirectory() as scratch:
        ways = {
            "doctor": examine,
            "validate": lambda: validate(path, solutions=0),
            "convert": lambda: convert(path, Path(scratch, "a.h5"), "native"),
            "load_splits": lambda: load_splits(path, windows=windows),
        }
        for name, way in ways.items():
            try:
                way()
            except _EXPECTED as error:
                if not refused and "that a file may take" in str(error):
                    return f"open_dataset opens it, {name} says: {ascii(str(error))}"
            except Exception as error:
                return f"{name} ends with {type(error).__name__}: {ascii(str(error))}"
            else:
                if refused:
                    return f"{name} opens it, open_dataset says: {ascii(refused)}"
    return ""


def waited(process: str | int = "self") -> dict[int, float]:
    """Seconds that a process, and those it has started, have stood in the queue for a processor, by their numbers;
    nothing where the system does not say (not Linux)."""
    about = Path(f"/proc/{process}")
    try:
        seconds = int((about / "schedstat").read_text().split()[1]) / 1e9
        found = {int((about / "stat").read_text().split()[0]): seconds}
        for child in (about / "task" / str(next(iter(found))) / "children").read_text().split():
            found |= waited(child)
    except (OSError, IndexError, ValueError):
        return {}
    return found


def clean(text: str) -> bool:
    """Whether a text is one line that a terminal shows as it is: nothing in it moves the cursor or changes colours."""
    return not any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") for letter in text)


def _use(path: Path, layout: str | None) -> str:
    try:
        return _read(path, None)
    except _EXPECTED as error:
        if layout is None or not clean(str(error)) or len(str(error)) > _LONGEST:
            raise
        return _read(path, layout)


def _read(path: Path, layout: str | None) -> str:
    import numpy as np

    from sciops.datasets import describe, grid_of, open_dataset, validate

    with open_dataset(path, layout=layout) as dataset:
        name = str(dataset.attrs["layout"])
        if "no_grid" not in dataset.attrs:
            grid_of(dataset)
        for variable in dataset.variables.values():
            first = variable.isel(sample=slice(0, 1)) if "sample" in variable.dims else variable
            np.asarray(first.values)
        for finding in validate(path if layout is None else dataset, solutions=0):
            if not clean(str(finding)) or len(str(finding)) > _LONGEST:
                raise AssertionError(f"validate says {ascii(str(finding))[:_LONGEST]}")
    text = describe(path) if layout is None else ""
    if len(text) > _SCREENS or not all(clean(line) for line in text.split("\n")):
        raise AssertionError(f"info says {ascii(text)[:_LONGEST]}")
    return name


def _limit(megabytes: float) -> None:
    """Limits the memory to this beyond what is held now, before a file that needs more takes all of the machine's."""
    try:
        import resource

        most = int((_megabytes("VmData") + megabytes) * 2**20)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    except (ImportError, OSError, ValueError):
        pass


def _processes() -> Iterator[int]:
    """This process and those that it has started."""
    yield os.getpid()
    try:
        yield from map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
    except OSError:
        pass


def _computed() -> float:
    """Seconds that these processes have computed, those that have ended too."""
    mine = os.times()
    total = mine.user + mine.system + mine.children_user + mine.children_system
    for number in list(_processes())[1:]:
        try:
            fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError, ValueError):
            pass
    return total


def _forget_peak() -> None:
    for number in _processes():
        try:
            Path(f"/proc/{number}/clear_refs").write_text("5")
        except OSError:
            pass


def _megabytes(name: str, process: int | str = "self") -> float:
    try:
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


if __name__ == "__main__":
    main()
