"""Sets that are read where they are: The Well's folders of train, valid and test files, on a server or on this disk."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sciops.datasets.download.registry import PublicSet
from sciops.datasets.fields.joined import JoinedDataset
from sciops.datasets.fields.splits import Splits, load_splits
from sciops.datasets.fields.trajectories import TrajectoryDataset
from sciops.files.remote import answering, file_system

_FOLDERS = {"train": "train", "validation": "valid", "test": "test"}
_OPTIONS = ("windows", "resolution", "dtype", "kinds")
_ENDINGS = (".hdf5", ".h5")


def open_in_place(chosen: PublicSet, part: str, folder: Any, files: Any, options: Mapping[str, Any]) -> Splits:
    """The splits of one part of a set.

    chosen : a set with an address in ``stream``
    part : the name after the slash, "shear_flow" of "the-well/shear_flow"
    folder : another address; or a folder of this disk, ``folder/PART`` where there is one. Default: that part in
        ``$SCIOPS_DATA/NAME`` or ``$SCIOPS_DATA`` where it is there, else the set's own address
    files : patterns of the names of files, such as "*Reynolds_1e4*"; None for all
    options : as in `load_splits` for a folder of this disk; of a server windows, resolution, dtype and kinds

    Raises ValueError for options that do not apply, OSError where the server does not answer or holds no such files.
    """
    address = os.fspath(folder) if folder is not None else ""
    here = _on_this_disk(chosen.name, part, address)
    if here is not None:
        return load_splits(here, **{"windows": {}, **options})
    if not part and not address:
        raise ValueError(
            f"{chosen.name} has many parts: name one, load_public('{chosen.name}/shear_flow'); {chosen.page} lists them"
            f"{chosen.instead()}"
        )
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise ValueError(f"{unknown[0]}={options[unknown[0]]!r}: files on a server take {', '.join(_OPTIONS)} alone")
    base = (address or str(chosen.stream)).replace("{part}", part).rstrip("/")
    patterns = [files] if isinstance(files, str) else list(files or ["*"])
    try:
        found = {split: _listed(f"{base}/{word}", patterns) for split, word in _FOLDERS.items()}
        if not any(found.values()):
            raise OSError(f"{base} holds no .hdf5 file in train, valid or test that is called {' or '.join(patterns)}")
        return Splits(**{split: _opened(paths, options) for split, paths in found.items() if paths})
    except OSError as error:
        raise OSError(f"{chosen.name}/{part}: {error}{chosen.instead()}") from None


def _on_this_disk(name: str, part: str, address: str) -> Path | None:
    """The folder of this disk that is meant; None where the files are on a server."""
    if address and "://" not in address:
        return Path(address) / part if (Path(address) / part).is_dir() else Path(address)
    ours = os.environ.get("SCIOPS_DATA")
    places = (Path(ours) / name / part, Path(ours) / part) if ours and part and not address else ()
    return next((place for place in places if place.is_dir()), None)


def _listed(url: str, patterns: list[str]) -> list[str]:
    """The addresses of the HDF5 files of a folder of the server; empty where there is no such folder."""
    with answering(url):
        system, path = file_system(url)
        try:
            names = sorted(str(name) for name in system.ls(path, detail=False))
        except FileNotFoundError:
            return []
    chosen = (name.rstrip("/").rsplit("/", 1)[-1] for name in names)
    kept = (name for name in chosen if name.lower().endswith(_ENDINGS))
    return [f"{url}/{name}" for name in kept if any(fnmatch.fnmatchcase(name, one) for one in patterns)]


def _opened(paths: list[str], options: Mapping[str, Any]) -> TrajectoryDataset | JoinedDataset:
    """The files as one data set, whose frames are read when asked for."""
    own = {name: value for name, value in options.items() if name != "windows"}
    parts = [TrajectoryDataset(path, **(options.get("windows") or {}), **own, memory_limit=0) for path in paths]
    return parts[0] if len(parts) == 1 else JoinedDataset(parts)
