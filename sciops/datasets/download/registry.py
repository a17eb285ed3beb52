"""The registry of public data sets: files with published hashes, sizes and addresses, and what generates the same law.

``registry.json`` beside this module holds, for every set, its files, the page that describes it, and the command that
generates data of the same law where no address works any more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from sciops.files.untrusted import read_json

__all__ = ["PublicSet", "RemoteFile", "public_sets", "read_registry"]

_FORMAT = "sciops.registry.1"
_HASH = re.compile(r"sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}")


@dataclass(frozen=True)
class RemoteFile:
    """One file of a set.

    name : under which it is kept
    urls : addresses of the same bytes, tried in order
    hash : "sha256:…" or "md5:…", as its publisher states it; None where none is published: the first download is then
        remembered in ``<name>.sha256`` beside the file, and a later one must equal it
    size : its bytes, None where they are not known
    """

    name: str
    urls: tuple[str, ...]
    hash: str | None
    size: int | None = None


@dataclass(frozen=True)
class PublicSet:
    """A public data set.

    name, about, page : what it is, and where that is written
    layout : the reader its files have (`sciops.datasets.READERS`)
    recipe : the command that generates data of the same law here, or None
    files : name → `RemoteFile`; empty where no stable address is known
    nearest : where there is no `recipe`, the command that generates the most similar law, or None
    test : which samples of a file its publisher tests with, "first tenth" or "last tenth"; None where the files
        themselves say it, or nothing is published
    stream : the address of the folder of train, valid and test files that can be read in place, with ``{part}`` for the
        name of a part of the set; None where there is no such folder
    """

    name: str
    about: str
    layout: str
    page: str
    recipe: str | None
    files: Mapping[str, RemoteFile] = field(default_factory=dict)
    nearest: str | None = None
    test: str | None = None
    stream: str | None = None

    def instead(self) -> str:
        """What to do where the data cannot be had: the end of a message, "" where there is nothing to propose."""
        if self.recipe:
            return f"; data of the same law: {self.recipe}"
        return f"; the nearest law that is generated here: {self.nearest}" if self.nearest else ""

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
        content = read_json(path)
        if content["format"] != _FORMAT:
            raise ValueError(f"format {content['format']!r}, expected {_FORMAT!r}")
        return {name: _as_set(name, entry) for name, entry in content["sets"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a registry of data sets: {error!s}") from None


@cache
def _registry() -> dict[str, PublicSet]:
    return read_registry(Path(__file__).with_name("registry.json"))


def _as_set(name: str, entry: Mapping[str, Any]) -> PublicSet:
    files = {
        file: RemoteFile(
            _plain_name(file), tuple(_address(url) for url in about["urls"]), about["hash"], about.get("size")
        )
        for file, about in entry["files"].items()
    }
    for one in files.values():
        if not one.urls:
            raise ValueError(f"{name}: no address for {one.name}")
        if one.hash is not None and not _HASH.fullmatch(one.hash):
            raise ValueError(
                f"{name}: the hash of {one.name} is {one.hash}, expected sha256: and 64 hexadecimal digits, md5: and 32"
                " of them, or null"
            )
        if one.size is not None and (type(one.size) is not int or one.size < 1):
            raise ValueError(f"{name}: the size of {one.name} is {one.size!r}, expected a number of bytes or null")
    test, stream = entry.get("test"), entry.get("stream")
    if test not in (None, "first tenth", "last tenth"):
        raise ValueError(f"{name}: test is {test!r}, expected 'first tenth', 'last tenth' or null")
    about = (entry["about"], entry["layout"], entry["page"], entry["recipe"])
    return PublicSet(name, *about, files, entry.get("nearest"), test, stream)


def _plain_name(name: str) -> str:
    if Path(name).name != name or name.startswith("."):
        raise ValueError(f"file {name!r}: expected a plain name without folders")
    return name


def _address(url: str) -> str:
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"address {url!r}: expected http or https")
    return url
