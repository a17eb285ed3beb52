"""Public data sets by name: fetched from any of their addresses, checked by their hash, resumed where they stopped."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciops.datasets.download.registry import PublicSet, RemoteFile, public_sets
from sciops.files.locks import exclusive
from sciops.files.untrusted import check_regular
from sciops.files.whole_files import replacing, synchronize
from sciops.files.writable import is_disk_full, writable_folder

if TYPE_CHECKING:
    from sciops.datasets.download.resumable import ResumableDownload

__all__ = ["fetch", "folder_of"]


def fetch(
    name: str,
    files: Sequence[str] | None = None,
    *,
    folder: str | os.PathLike | None = None,
    registry: Mapping[str, PublicSet] | None = None,
    limit: int | None = None,
    progress: bool = True,
) -> list[Path]:
    """The files of a public set on this disk, downloaded where they are not there yet.

    name : a set of `public_sets`, such as "pdebench-burgers"
    files : names in that set; None means all of them
    folder : where to put them; default ``$SCIOPS_DATA`` or the user's cache folder, in a folder named like the set
    registry : other sets, from `read_registry`
    limit : bytes that a file may have whose size the registry does not know; default 128 GiB where the server states
        its length beforehand, 4 GiB where it does not. A download stops at the first byte beyond, or beyond the known
        size, and nothing of it is kept
    returns : their paths, in the order asked for

    A file appears under its name only when its hash is right. What has come before a connection broke waits in the
    folder ``<name>.incoming``: the next address, or the next call, is asked for the rest. Every address is tried before
    giving up.

    Raises ValueError for unknown names and for a file here with another hash (both hashes are named); OSError when no
    address has the bytes or one sends too many, with the command that generates data of the same law, when another
    process is fetching the file, and when the disk has no room; ImportError without pooch.
    """
    known = public_sets() if registry is None else registry
    if name not in known:
        raise ValueError(f"no public set {name!r}: expected one of {', '.join(known)}")
    chosen = known[name]
    if not chosen.files:
        raise ValueError(f"{name}: no stable address is known, see {chosen.page}{chosen.instead()}")
    unknown = [file for file in files or () if file not in chosen.files]
    if unknown:
        shown = ", ".join(list(chosen.files)[:6]) + (", …" if len(chosen.files) > 6 else "")
        raise ValueError(f"{name} has no file {unknown[0]!r}: expected some of {shown}")
    target = folder_of(name) if folder is None else Path(folder)
    wanted = [chosen.files[file] for file in (files or chosen.files)]
    if not all((target / file.name).exists() for file in wanted):
        _pooch()
        writable_folder(target).mkdir(parents=True, exist_ok=True)
    return [_fetch_file(chosen, file, target, limit, progress) for file in wanted]


def folder_of(name: str) -> Path:
    """Where `fetch` puts the files of a set unless told otherwise: ``$SCIOPS_DATA/NAME``, or the user's cache."""
    return Path(os.environ.get("SCIOPS_DATA") or _pooch().os_cache("sciops")) / name


def _fetch_file(chosen: PublicSet, file: RemoteFile, folder: Path, limit: int | None, progress: bool) -> Path:
    path, remembered = folder / file.name, folder / f"{file.name}.sha256"
    expected = file.hash or (f"sha256:{remembered.read_text().strip()}" if remembered.exists() else None)
    if not path.exists():
        incoming = folder / f"{file.name}.incoming"
        if incoming.is_symlink():
            raise FileExistsError(f"{incoming} is a link, what comes must stay in {folder}: remove it")
        incoming.mkdir(exist_ok=True)
        with exclusive(incoming / ".lock") as mine:
            if not mine:
                raise OSError(f"another process is fetching {path}; wait until it is done")
            try:
                if not path.exists():  # whoever held the lock before may have brought it
                    _bring(chosen, file, expected, incoming, path, limit, progress)
            finally:
                if not path.exists() and not _kept(incoming):
                    shutil.rmtree(incoming, ignore_errors=True)
        shutil.rmtree(incoming, ignore_errors=True)  # not before: network file systems keep what is open
        return path
    found = _hash_like(path, expected)
    if found != expected:
        raise ValueError(
            f"{path} has {found}, expected {expected}: it is damaged or another file of that name; remove it and fetch "
            "again"
        )
    return path


def _bring(
    chosen: PublicSet,
    file: RemoteFile,
    expected: str | None,
    incoming: Path,
    path: Path,
    limit: int | None,
    progress: bool,
) -> None:
    """From the first address that has it through `incoming` to its name."""
    from sciops.datasets.download.resumable import ResumableDownload

    downloader = ResumableDownload(
        incoming / ".bytes",
        file.name,
        checked=expected is not None,
        size=file.size,
        limit=limit,
        progress=progress,
    )
    refusals = []
    for url in file.urls:
        try:
            _retrieve(url, expected, file.name, incoming, downloader)
        except ValueError as error:
            refusals.append(_one_line(error) if expected is None else f"{url} sends other bytes than {expected}")
        except OSError as error:
            if is_disk_full(error):
                raise
            refusals.append(_one_line(error))
        else:
            whole = incoming / file.name
            synchronize(whole)
            if file.hash is None:
                with replacing(path.with_name(f"{path.name}.sha256")) as notes:
                    notes.write_text(_pooch().file_hash(str(whole), alg="sha256") + "\n")
            os.replace(whole, path)
            return
    kept = _kept(incoming)
    again = f"; {kept} bytes are kept, the same call resumes" if kept else ""
    raise OSError(f"{file.name} of {chosen.name} did not come: {'; '.join(refusals)}{again}{chosen.instead()}")


def _retrieve(url: str, expected: str | None, name: str, incoming: Path, downloader: ResumableDownload) -> None:
    """One address; once more from the start where bytes that came before may be to blame for a wrong hash."""
    for again in (False, True):
        try:
            with _quiet():
                _pooch().retrieve(url, expected, fname=name, path=incoming, downloader=downloader)
            return
        except ValueError:
            downloader.forget()  # its bytes are whole and wrong, so that going on with them makes no sense
            if again or not downloader.resumed:
                raise


def _kept(incoming: Path) -> int:
    """Bytes that wait for the rest."""
    part = incoming / ".bytes"
    return part.stat().st_size if part.is_file() and not part.is_symlink() else 0


def _hash_like(path: Path, expected: str | None) -> str | None:
    if expected is None:
        return None
    algorithm = expected.split(":", 1)[0]
    with open(check_regular(path), "rb") as file:
        return f"{algorithm}:{hashlib.file_digest(file, algorithm).hexdigest()}"


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
