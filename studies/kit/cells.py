"""Cells of a study: results kept on disk under a fingerprint of all that made them, so that a stale one is not reused.

A cell is a training or a measurement. Its file carries the fingerprint in its name, so that another configuration is
another cell and both stay; a study that was stopped resumes by reading back the cells it has.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import sys
import zipfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sciops.files.budget import OverBudget, Spending
from sciops.files.digest import DAMAGED, digest_of, read_sealed, sealed
from sciops.files.json_files import plain, write_json
from sciops.files.untrusted import check_regular
from sciops.files.whole_files import replacing

_DIGEST = "_digest"  # among the arrays of a file


def fingerprint(made_by: Any) -> str:
    """Twelve hexadecimal digits that differ wherever anything of `made_by` differs.

    Parameters
    ----------
    made_by : anything that `sciops.runs.plain` takes
        All that decides the result: the configuration of the cell (not of the whole study), the options that a name
        stands for rather than the name, and the content of the data (`data_digest`, `sciops.runs.file_hash`) rather
        than a path. The code of sciops, of data_gen, of the kit and of the study that calls is added (`code_digest`),
        so that a cell is not reused after a change of the code.

    Returns
    -------
    str
        The first digits of a SHA-256 of the canonical JSON.
    """
    text = json.dumps({"code": code_digest(_caller()), "made_by": plain(made_by)}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def cell_name(name: str, made_by: Any) -> str:
    """A file or folder name of a cell: `name` with characters that are safe everywhere, then the fingerprint."""
    safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name)
    return f"{safe}_{fingerprint(made_by)}"


def kept(
    folder: str | Path,
    name: str,
    made_by: Any,
    make: Callable[[], Mapping[str, Any]],
    *,
    unless: Callable[[Mapping[str, Any]], bool] = lambda record: False,
) -> dict[str, Any]:
    """The record of a cell, read back where it is there, else made and written.

    Parameters
    ----------
    folder : path
        Where the cells of a study lie.
    name : str
        For readers of the folder; cells of one name and different descriptions lie side by side.
    made_by : mapping
        See `fingerprint`.
    make : callable
        Returns the record, a mapping in JSON's kinds.
    unless : callable
        Of which records no file is written, so that they are made again: failures.

    Returns
    -------
    dict
        {"name": name, "spec": made_by, **record}, as JSON gives them back.

    Raises
    ------
    ValueError
        For a file that changed since it was written.
    """
    path = Path(folder) / f"{cell_name(name, made_by)}.json"
    made_by = plain(made_by)
    stored = read_sealed(path) if path.exists() else None
    if stored is None or stored["spec"] != made_by:
        stored = {"name": name, "spec": made_by, "record": plain(make())}
        if not unless(stored["record"]):
            write_json(path, sealed(stored))
    return {"name": name, "spec": made_by, **stored["record"]}


def kept_arrays(
    folder: str | Path | None, name: str, made_by: Any, make: Callable[[], Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The arrays that make() gives, read back where they are there; not kept where the folder is None."""
    if folder is None:
        return dict(make())
    path = Path(folder) / f"{cell_name(name, made_by)}.npz"
    if path.exists():
        return read_arrays(path)
    return write_arrays(path, make())


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Writes an archive of arrays with a digest over them, which appears only when whole; returns the arrays."""
    arrays = dict(arrays)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **{_DIGEST: np.array(digest_of(arrays))}, **arrays)
    return arrays


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of `write_arrays`, unpacked within the budget of a file.

    The checksums of an archive leave out its list of members, of which a changed bit drops some; the digest does not.
    Raises ValueError for a file that is damaged or changed, or takes more than its budget.
    """
    spent = Spending(check_regular(path))
    try:
        with open(path, "rb") as file:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
            spent.take(bytes=sum(one.file_size for one in members), objects=len(members), what="its arrays")
            file.seek(0)
            with np.load(file, allow_pickle=False) as stored:
                arrays = dict(stored)
    except OverBudget:
        raise
    except DAMAGED as error:
        raise ValueError(f"{path} is damaged ({error}); delete it, and it is made again") from None
    written = arrays.pop(_DIGEST, None)  # absent in files from before
    if written is not None and str(written) != digest_of(arrays):
        raise ValueError(f"{path} changed since it was written; delete it, and it is made again")
    return arrays


def code_digest(module: str = "") -> str:
    """SHA-256 of the code behind a study's results: sciops, data_gen, `studies.kit` and the study of `module`.

    Comments, docstrings and layout do not count: a change of the documentation leaves all cells valid. The files are
    read once per process.

    Parameters
    ----------
    module : str
        A module of the study, "studies.mixer_zoo.cells"; of any other name only the shared code counts.
    """
    package, _, name = module.partition(".")
    study = {f"studies.{name.split('.')[0]}"} if package == "studies" and name else set()
    names = sorted({"sciops", "data_gen", "studies.kit"} | study)
    return hashlib.sha256(" ".join(map(_code_of, names)).encode()).hexdigest()


@cache
def _code_of(module: str) -> str:
    """SHA-256 of the syntax trees of a module, or of all modules of a package; that of nothing for an absent one."""
    digest, spec = hashlib.sha256(), importlib.util.find_spec(module)
    if spec is not None and spec.origin is not None:
        origin = Path(spec.origin)
        for path in sorted(origin.parent.rglob("*.py")) if origin.stem == "__init__" else [origin]:
            digest.update(f"{path.relative_to(origin.parent)}\n{_syntax(path.read_bytes())}\n".encode())
    return digest.hexdigest()


def _syntax(source: bytes) -> str:
    """The syntax tree of a file without comments, positions and lone strings, as text."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [one for one in body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    return ast.dump(tree, annotate_fields=False)


def _caller() -> str:
    """The name of the module outside this file that calls, also where it is run by ``python -m``."""
    frame = sys._getframe()
    while frame.f_globals["__name__"] == __name__:
        frame = frame.f_back
    return getattr(frame.f_globals.get("__spec__"), "name", "")


def data_digest(*datasets: Any) -> str:
    """SHA-256 of the fields of torch data sets and their grids, whatever file they came from; None has its own."""
    digest = hashlib.sha256()
    for dataset in datasets:
        if dataset is None:
            digest.update(b"none")
            continue
        digest.update(json.dumps([len(dataset), dataset.grid.to_dict()], sort_keys=True).encode())
        for first in range(0, len(dataset), 64):
            batch = dataset.batch(np.arange(first, min(first + 64, len(dataset))))
            for key in sorted(key for key in batch if hasattr(batch[key], "detach")):
                values = np.ascontiguousarray(batch[key].detach().cpu().numpy())
                digest.update(f"{key} {values.dtype.str} {values.shape}".encode())
                digest.update(values.data)
    return digest.hexdigest()
