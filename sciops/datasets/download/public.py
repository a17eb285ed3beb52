"""`load_public`: a public data set by its name, on this disk or fetched, checked, read and split as published."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, overload

from sciops.datasets.download.fetching import fetch, folder_of
from sciops.datasets.download.registry import PublicSet, public_sets
from sciops.datasets.download.sizes import set_size
from sciops.datasets.fields.split_sources import only_evolving, role_of
from sciops.datasets.fields.splits import Splits, load_splits
from sciops.files.budget import Budget, within_budget
from sciops.files.messages import shown
from sciops.files.whole_files import replacing

_LARGEST = 1 << 37  # bytes of one file in an archive


class PublicSets(dict[str, PublicSet]):
    """The public sets by name; shown as a list with one line each."""

    def __repr__(self) -> str:
        return "\n".join(
            f"{name:32} {shown(one.about, 88)}" + (f" ({size})" if (size := set_size(one)) else "")
            for name, one in self.items()
        )


@overload
def load_public(name: None = None) -> PublicSets:
    """All known data sets, as a table."""


@overload
def load_public(
    name: str,
    *,
    folder: str | os.PathLike[str] | None = ...,
    files: str | list[str] | tuple[str, ...] | None = ...,
    registry: Mapping[str, PublicSet] | None = ...,
    progress: bool = ...,
    limit: int | None = ...,
    budget: Budget | None = ...,
    **options: Any,
) -> Splits:
    """The data set of this name, with its splits."""


@within_budget
def load_public(
    name: str | None = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    files: str | list[str] | tuple[str, ...] | None = None,
    registry: Mapping[str, PublicSet] | None = None,
    progress: bool = True,
    limit: int | None = None,
    budget: Budget | None = None,
    **options: Any,
) -> Splits | PublicSets:
    """Opens a public data set by its name: fetched where it is not on this disk, checked, and split as published.

    Parameters
    ----------
    name : str, optional
        A set of the list, such as "neuralop-darcy-mini"; "the-well/shear_flow" for a part of a set that is read in
        place. Without a name the list is returned.
    folder : str or path-like, optional
        Where the files are or come to be. Default: ``$SCIOPS_DATA/NAME``, ``$SCIOPS_DATA`` itself where it holds them,
        else the user's cache. Nothing is written where all files are there. For sets that are read in place, also an
        address.
    files : str or list of str, optional
        Names in the set; one of them where its files are several data sets.
    registry : mapping, optional
        Other sets, from `read_registry`.
    progress, limit
        As in `fetch`.
    budget : Budget, optional
        What each file may take, as in `open_dataset`.
    **options
        As in `load_splits`: resolution, train, validation, test, windows, inputs, dtype, …; they go before the
        published split. No validation samples are held out unless asked for: ``validation=100``.

    Returns
    -------
    Splits
        Trajectories have windows of one step unless `windows` says otherwise. Of PDEBench, the tenth that its own
        loaders test with is the test split; where no split is published, the last tenth.

    Raises
    ------
    ValueError
        For unknown names, with the list, and for files with another size or hash than the published one.
    OSError
        When no server answers, with the command that generates data of the same or the nearest law.
    ImportError
        Without pooch where something must be fetched, or fsspec where it is read in place.

    Examples
    --------
    >>> load_public("neuralop-darcy-mini", resolution=16).train    # doctest: +SKIP
    """
    known = public_sets() if registry is None else registry
    if name is None:
        return PublicSets(known)
    whole, _, part = name.partition("/")
    if whole not in known:
        near = "".join(f"; did you mean {one!r}?" for one in get_close_matches(whole, known, 1))
        raise ValueError(f"no public set {name!r}: expected one of {', '.join(known)}{near}")
    chosen = known[whole]
    if chosen.stream is not None:
        from sciops.datasets.download.in_place import open_in_place

        return open_in_place(chosen, part, folder, files, options)
    if part:
        raise ValueError(f"{name!r}: {whole} has no parts; name one of its files, load_public({whole!r}, files=…)")
    wanted = _wanted(chosen, files, options.get("resolution"))
    if not chosen.files:
        if folder is None:
            raise ValueError(
                f"{whole}: no stable address is known, see {chosen.page}; pass folder= with its files{chosen.instead()}"
            )
        place = Path(folder) / wanted[0] if len(wanted) == 1 else Path(folder)
        return _split(chosen, place, wanted or None, options)
    where = _folder(chosen, folder, wanted)
    paths = fetch(whole, wanted, folder=where, registry=known, limit=limit, progress=progress)
    if paths[0].suffix == ".tgz":
        return _split(chosen, _unpacked(paths[0]), None, options)
    one = len(paths) == 1 and len(chosen.files) > 1
    return _split(chosen, paths[0] if one else where, wanted, options)


def _wanted(chosen: PublicSet, files: Any, resolution: Any) -> list[str]:
    """The names of the files to open; ValueError where one must be named."""
    names = [files] if isinstance(files, str) else list(files or ())
    if names or not chosen.files:
        return names
    archives = [name for name in chosen.files if name.endswith(".tgz")]
    if archives:
        fits = [name for name in archives if name.removesuffix(".tgz").endswith(f"_{resolution}")]
        if not fits:
            raise ValueError(
                f"{chosen.name} has one archive a grid: name one, files={archives[0]!r}: {', '.join(archives)}"
            )
        return fits
    if len(chosen.files) > 1 and not {"train", "test"} <= {role_of(Path(name).stem) for name in chosen.files}:
        shown_names = ", ".join(list(chosen.files)[:4]) + (", …" if len(chosen.files) > 4 else "")
        raise ValueError(
            f"{chosen.name} has {len(chosen.files)} files, each a data set: name one, "
            f"files={next(iter(chosen.files))!r} ({shown_names})"
        )
    return list(chosen.files)


def _folder(chosen: PublicSet, folder: Any, wanted: list[str]) -> Path:
    """The first of the places that holds all wanted files, else the one to fetch into."""
    if folder is not None:
        places = [Path(folder), Path(folder) / chosen.name]
    else:
        ours = os.environ.get("SCIOPS_DATA")
        places = [folder_of(chosen.name), *([Path(ours)] if ours else [])]
    complete = (place for place in places if all((place / name).is_file() for name in wanted))
    return next(complete, places[0])


def _split(chosen: PublicSet, place: Path, names: list[str] | None, options: Mapping[str, Any]) -> Splits:
    """The data of a file, or of files of a folder, with the published split unless the options say otherwise."""
    from sciops.datasets.formats import open_dataset

    given = dict(options)
    inside = names if place.is_dir() else None
    if "windows" not in given and only_evolving(place, given.get("equation"), inside):
        given["windows"] = {}
    given.setdefault("validation", 0)
    if chosen.test is not None and "test" not in given and place.is_file():
        with open_dataset(place) as dataset:
            count = dataset.sizes["sample"]
        given["test"] = (0, count // 10) if chosen.test == "first tenth" else (int(0.9 * count), count)
    return load_splits(place, files=inside, **given)


def _unpacked(archive: Path) -> Path:
    """The folder of an archive's files, beside it; unpacked the first time, one whole file after another.

    Only regular files are taken, under their plain names: no link, no folder and no path of the archive is followed.
    """
    folder = archive.with_name(archive.name.removesuffix(".tgz"))
    with tarfile.open(archive, "r:gz") as packed:
        for member in packed:
            name = Path(member.name).name
            if not member.isreg() or name.startswith(".") or not name.endswith(".pt") or (folder / name).is_file():
                continue
            if member.size > _LARGEST:
                raise ValueError(
                    f"{archive}: {shown(name)} has {member.size} bytes, more than is unpacked: fetch it again"
                )
            content: Any = packed.extractfile(member)
            with replacing(folder / name, size=member.size) as temporary, open(temporary, "wb") as file:
                shutil.copyfileobj(content, file, 1 << 20)
    if not folder.is_dir():
        raise ValueError(f"{archive} holds no .pt file: fetch it again")
    return folder
