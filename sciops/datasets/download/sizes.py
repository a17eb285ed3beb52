"""What a download brings: the sizes that the registry knows, or else the servers state, and the space on the disk."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from sciops.datasets.download.registry import PublicSet, RemoteFile
from sciops.files.writable import writable_folder

_ASKED = 8  # files whose servers are asked


def bytes_text(size: float) -> str:
    """A number of bytes in units of a thousand.

    >>> bytes_text(999), bytes_text(1280999), bytes_text(8.2e9)
    ('999 bytes', '1.3 MB', '8.2 GB')
    """
    if size < 1000:
        return f"{size:.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 999.5:
            return f"{size:.3g} {unit}" if size >= 99.5 else f"{size:.2g} {unit}"
    return f"{size / 1000:.2g} TB"


def set_size(chosen: PublicSet) -> str:
    """The size of a whole set, as far as the registry knows it; "" where it knows none."""
    known = [file.size for file in chosen.files.values() if file.size is not None]
    if not known:
        return ""
    return ("" if len(known) == len(chosen.files) else "at least ") + bytes_text(sum(known))


def announcement(chosen: PublicSet, files: Sequence[str] | None, folder: Path) -> str:
    """One line before a download: what is missing here, how large it is, and how much space there is.

    The servers are asked for sizes that the registry does not know, of a few files. Raises OSError for a folder that
    takes no files.
    """
    wanted = [chosen.files[name] for name in (files or chosen.files) if name in chosen.files]
    missing = [file for file in wanted if not (folder / file.name).exists()]
    here = f", {len(wanted) - len(missing)} are here" if len(missing) < len(wanted) else ""
    if not missing:
        return f"{chosen.name}: all of the {len(wanted)} files are in {folder}"
    writable_folder(folder)
    sizes = [file.size for file in missing]
    if len([size for size in sizes if size is None]) <= _ASKED:
        sizes = _asked(missing)
    known = [size for size in sizes if size is not None]
    unknown = len(sizes) - len(known)
    parts = [bytes_text(sum(known))] if known else []
    parts += [f"{unknown} of unknown size"] if unknown and known else ["unknown size"] if unknown else []
    there = next(one for one in (folder, *folder.parents) if one.is_dir())
    free = bytes_text(shutil.disk_usage(there).free)
    return f"{chosen.name}: {len(missing)} files, {' and '.join(parts)}{here}, into {folder} ({free} free)"


def _asked(files: Sequence[RemoteFile]) -> list[int | None]:
    """The sizes of files, those that are not known by their servers; none is asked after one that does not answer."""
    from sciops.datasets.download.resumable import stated_size

    sizes: list[int | None] = []
    silent = False
    for file in files:
        size = file.size
        if size is None and not silent:
            size = stated_size(file.urls[0])
            silent = size is None
        sizes.append(size)
    return sizes
