"""Public data sets by name: fetched from any of their addresses, checked by their hash, resumed where they broke off.

``registry.json`` beside this module holds, for every set, its files with published hashes and addresses, the page that
describes it, and the command that generates data of the same law where no address works any more.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["PublicSet", "RemoteFile", "fetch", "public_sets", "read_registry"]

_FORMAT = "sciops.registry.1"


@dataclass(frozen=True)
class RemoteFile:
    """One file of a set.

    name : under which it is kept
    urls : addresses of the same bytes, tried in order
    hash : "sha256:…" or "md5:…", as its publisher states it; None where none is published: the first download is then
        remembered in ``<name>.sha256`` beside the file, and a later one must equal it
    """

    name: str
    urls: tuple[str, ...]
    hash: str | None


@dataclass(frozen=True)
class PublicSet:
    """A public data set.

    name, about, page : what it is, and where that is written
    layout : the reader its files have (`sciops.datasets.READERS`)
    recipe : the command that generates data of the same law here, or None
    files : name → `RemoteFile`; empty where no stable address is known
    """

    name: str
    about: str
    layout: str
    page: str
    recipe: str | None
    files: Mapping[str, RemoteFile] = field(default_factory=dict)

    def duplicates(self) -> list[tuple[str, ...]]:
        """Files that are the same bytes under several names, by their published hashes."""
        same: dict[str, list[str]] = {}
        for file in self.files.values():
            if file.hash is not None:
                same.setdefault(file.hash, []).append(file.name)
        return [tuple(names) for names in same.values() if len(names) > 1]


def public_sets() -> dict[str, PublicSet]:
    """The sets that `fetch` knows, by name."""
    return dict(_registry())


def read_registry(path: str | os.PathLike) -> dict[str, PublicSet]:
    """A registry file: JSON with ``format`` and ``sets``, as the one that comes with the package.

    Raises ValueError naming what is missing or of the wrong kind.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            raise ValueError(f"format {content['format']!r}, expected {_FORMAT!r}")
        return {name: _as_set(name, entry) for name, entry in content["sets"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no registry of data sets: {error!s}") from None


def fetch(
    name: str,
    files: Sequence[str] | None = None,
    *,
    folder: str | os.PathLike | None = None,
    registry: Mapping[str, PublicSet] | None = None,
    progress: bool = True,
) -> list[Path]:
    """The files of a public set on this disk, downloaded where they are not there yet.

    name : a set of `public_sets`, such as "pdebench-burgers"
    files : names in that set; None means all of them
    folder : where to put them; default ``$SCIOPS_DATA`` or the user's cache folder, in a folder named like the set
    registry : other sets, from `read_registry`
    returns : their paths, in the order asked for

    A file appears under its name only when its hash is right. A connection that breaks leaves ``<name>.partial``, and
    the next call asks for the rest. Every address is tried before giving up.

    Raises ValueError for unknown names and for bytes with another hash (both hashes are named); OSError when no address
    answers, with the command that generates data of the same law; ImportError without pooch.
    """
    known = public_sets() if registry is None else registry
    if name not in known:
        raise ValueError(f"no public set {name!r}: expected one of {', '.join(known)}")
    chosen = known[name]
    if not chosen.files:
        raise ValueError(f"{name}: no stable address is known, see {chosen.page}{_instead(chosen)}")
    unknown = [file for file in files or () if file not in chosen.files]
    if unknown:
        shown = ", ".join(list(chosen.files)[:6]) + (", …" if len(chosen.files) > 6 else "")
        raise ValueError(f"{name} has no file {unknown[0]!r}: expected some of {shown}")
    pooch = _pooch()
    target = Path(folder) if folder is not None else Path(os.environ.get("SCIOPS_DATA") or pooch.os_cache("sciops"))
    target = target if folder is not None else target / name
    target.mkdir(parents=True, exist_ok=True)
    return [_fetch_file(chosen, chosen.files[file], target, progress) for file in (files or chosen.files)]


def _fetch_file(chosen: PublicSet, file: RemoteFile, folder: Path, progress: bool) -> Path:
    from sciops.datasets._resumable import ResumableDownload

    pooch = _pooch()
    path, remembered = folder / file.name, folder / f"{file.name}.sha256"
    expected = file.hash or (f"sha256:{remembered.read_text().strip()}" if remembered.exists() else None)
    if path.exists():
        found = _hash_like(path, expected)
        if found == expected or expected is None:
            return path
        raise ValueError(
            f"{path} has {found}, expected {expected}: it is damaged or another file of that name; remove it and fetch "
            "again"
        )
    refusals = []
    for url in file.urls:
        downloader = ResumableDownload(folder / f"{file.name}.partial", progress=progress)
        try:
            with _quiet():
                pooch.retrieve(url, expected, fname=file.name, path=folder, downloader=downloader)
        except ValueError as error:
            # pooch has removed the file: its bytes are whole and wrong, so that going on with them makes no sense
            downloader.forget()
            refusals.append(_one_line(error) if expected is None else f"{url} sends other bytes than {expected}")
            continue
        except OSError as error:
            refusals.append(_one_line(error))
            continue
        if file.hash is None and not remembered.exists():
            remembered.write_text(pooch.file_hash(str(path), alg="sha256") + "\n")
        return path
    kept = folder / f"{file.name}.partial"
    again = f"; {kept.stat().st_size} bytes are kept, the same call goes on" if kept.exists() else ""
    raise OSError(f"{file.name} of {chosen.name} did not come: {'; '.join(refusals)}{again}{_instead(chosen)}")


def _hash_like(path: Path, expected: str | None) -> str | None:
    if expected is None:
        return None
    algorithm = expected.split(":", 1)[0]
    return f"{algorithm}:{_pooch().file_hash(str(path), alg=algorithm)}"


def _instead(chosen: PublicSet) -> str:
    return f"; data of the same law: {chosen.recipe}" if chosen.recipe else ""


@cache
def _registry() -> dict[str, PublicSet]:
    return read_registry(Path(__file__).with_name("registry.json"))


def _as_set(name: str, entry: Mapping[str, Any]) -> PublicSet:
    files = {
        file: RemoteFile(_plain_name(file), tuple(_address(url) for url in about["urls"]), about["hash"])
        for file, about in entry["files"].items()
    }
    wrong = [f.name for f in files.values() if f.hash is not None and not f.hash.startswith(("sha256:", "md5:"))]
    if wrong:
        raise ValueError(f"{name}: the hash of {wrong[0]} begins with neither sha256: nor md5:")
    return PublicSet(name, entry["about"], entry["layout"], entry["page"], entry["recipe"], files)


def _plain_name(name: str) -> str:
    if Path(name).name != name or name.startswith("."):
        raise ValueError(f"file {name!r}: expected a plain name without folders")
    return name


def _address(url: str) -> str:
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"address {url!r}: expected http or https")
    return url


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """pooch logs every step; the bar and the errors say enough."""
    logger = _pooch().get_logger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _pooch() -> Any:
    try:
        import pooch
    except ImportError:
        raise ImportError("downloading needs pooch: pip install 'sciops[download]'") from None
    return pooch
