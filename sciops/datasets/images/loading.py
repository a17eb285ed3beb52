"""`load_images`: which images train, select and test, from any of the known places."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sciops.datasets.fields.splits import HELD_OUT, Splits
from sciops.datasets.images import cifar
from sciops.datasets.images.dataset import ImageDataset, statistics
from sciops.datasets.images.digits import LEVELS, read_digits
from sciops.datasets.images.folders import ImageFiles, class_folders, list_folder
from sciops.datasets.images.idx import read_within
from sciops.files.budget import Budget, Spending, within_budget

FASHION = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
FASHION_FOLDER = Path("/usr/share/datasets/fashion-mnist")
INSTALL = "apt-get install dataset-fashion-mnist"
_PARTS = {"train": ("train", "training"), "validation": ("val", "valid", "validation"), "test": ("test", "testing")}


@dataclass(frozen=True)
class _Source:
    """Pixels and labels by part; parts the source does not have are held out of "train"."""

    parts: Mapping[str, tuple[Any, np.ndarray]]
    classes: tuple[str, ...]
    levels: float = 255


@within_budget
def load_images(
    name_or_path: str | os.PathLike = "digits",
    *,
    train: int | None = None,
    validation: int | None = None,
    test: int | None = None,
    size: int | None = None,
    channels: int = 3,
    seed: int = 0,
    standardize: bool = True,
    budget: Budget | None = None,
) -> Splits:
    """Train, validation and test images as `ImageDataset`.

    name_or_path : "digits" (scikit-learn's, 1797 of 8×8), "fashion-mnist" (where Debian's package puts it, or
        $SCIOPS_DATA/fashion-mnist), or a folder: of IDX files (train-images-idx3-ubyte, …, compressed or not), of
        CIFAR-10's or CIFAR-100's binary version, of one folder of images a class, or of such folders named train, val
        and test
    train, validation, test : how many images; None takes all for training, a tenth of the training images for
        validation, and all of the test images there are, or a tenth where there are none; 0 for no such part
    size : pixels per side that images are resized to; None leaves them as they are (64 for image files)
    channels : of image files: 3, or 1 for grey. Those of 16 bits are scaled by the range of their format, 65535 to 255
    seed : of which images are chosen
    standardize : subtract the mean and divide by the standard deviation, per channel, of the training images that are
        used; False gives values in [0, 1], and `fit` then puts the statistics into the model (``normalize=True``)
    budget : of opening each image file, whenever it is read, or an archive of images; as in `sciops.open_dataset`. How
        many files a folder has is not limited

    Every choice is stratified: a part of n images has of each class its share of n, to the nearest whole number. The
    parts share no image. Test images do not depend on how many are asked for in other parts, nor validation images on
    the number of training images.

    Raises ValueError for counts that are not there and for damaged files; FileNotFoundError, naming the command that
    installs it, where Fashion-MNIST is not found; ImportError naming the extra that is missing.

    >>> load_images("fashion-mnist", train=10_000, size=56).train       # doctest: +SKIP
    """
    source = _source(name_or_path, size, channels)
    random = np.random.default_rng(seed)
    asked = {"test": test, "validation": validation, "train": train}
    rest = {part: np.arange(len(labels)) for part, (_, labels) in source.parts.items()}
    chosen: dict[str, tuple[str, np.ndarray]] = {}
    total = len(rest["train"])
    for part, count in asked.items():
        place = part if part in source.parts else "train"
        if count is None:
            count = len(rest[place]) if place == part else round(HELD_OUT * total)
        pool = rest[place]
        picked = _stratified(source.parts[place][1][pool], count, random, part)
        chosen[part] = (place, pool[picked])
        rest[place] = np.delete(pool, picked)
    place, indices = chosen["train"]
    if not len(indices):
        raise ValueError(f"train={train}: no images are left to train on")
    fit_on = _taken(source.parts[place][0], indices)
    mean, std = statistics(fit_on, source.levels) if standardize else (None, None)
    made = {}
    for part, (place, indices) in chosen.items():
        pixels, labels = source.parts[place]
        if len(indices):
            options = {"levels": source.levels, "size": None if _are_files(pixels) else size, "mean": mean, "std": std}
            made[part] = ImageDataset(_taken(pixels, indices), labels[indices], classes=source.classes, **options)
    return Splits(**made)


def find_fashion_mnist(path: str | os.PathLike | None = None) -> Path:
    """The folder of Fashion-MNIST's four IDX files: `path`, $SCIOPS_DATA/fashion-mnist, or Debian's place.

    Raises FileNotFoundError that names the command which installs it.
    """
    places = [Path(path)] if path is not None else [FASHION_FOLDER]
    if path is None and os.environ.get("SCIOPS_DATA"):
        places.insert(0, Path(os.environ["SCIOPS_DATA"]) / "fashion-mnist")
    for place in places:
        if place.is_dir() and _idx_file(place, "train-images-idx3-ubyte"):
            return place
    raise FileNotFoundError(
        f"Fashion-MNIST is not in {' or '.join(map(str, places))}: {INSTALL}, or pass the folder of its IDX files"
    )


def read_idx_folder(
    folder: str | os.PathLike, *, budget: Budget | None = None
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{"train": (images, labels), "test": …} of four IDX files in MNIST's naming: (n, 1, H, W) uint8 and (n,) int64.

    budget : of the four files together, as in `sciops.open_dataset`

    Raises FileNotFoundError for one that is missing, ValueError for a damaged one and for numbers that differ.
    """
    folder, parts = Path(folder), {}
    files = [path for path in folder.iterdir() if path.is_file()]
    spent = Spending(folder, size=sum(path.stat().st_size for path in files), budget=budget)
    for part, prefix in (("train", "train"), ("test", "t10k")):
        names = (f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte")
        paths = [_idx_file(folder, name) or folder / f"{name}.gz" for name in names]
        images = read_within(spent, paths[0], dtype="uint8", ndim=3)
        labels = read_within(spent, paths[1], dtype="uint8", ndim=1)
        if len(images) != len(labels):
            raise ValueError(f"{paths[0]} holds {len(images)} images, {paths[1].name} {len(labels)} labels")
        parts[part] = (images[:, None], labels.astype(np.int64))
    return parts


def _source(name_or_path: str | os.PathLike, size: int | None, channels: int) -> _Source:
    if name_or_path == "digits":
        return _Source({"train": read_digits()}, tuple("0123456789"), LEVELS)
    if name_or_path == "fashion-mnist":
        return _Source(read_idx_folder(find_fashion_mnist()), FASHION)
    folder = Path(name_or_path)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: expected 'digits', 'fashion-mnist' or a folder of images")
    if _idx_file(folder, "train-images-idx3-ubyte"):
        parts = read_idx_folder(folder)
        count = 1 + max(int(labels.max(initial=0)) for _, labels in parts.values())
        return _Source(parts, FASHION if "fashion" in folder.name.lower() else tuple(map(str, range(count))))
    if cifar.is_cifar(folder):
        return _Source(cifar.read_cifar(folder), cifar.class_names(folder))
    inside = class_folders(folder)
    named = {part: next((n for n in names if n in inside), None) for part, names in _PARTS.items()}
    folders = {part: folder / name for part, name in named.items() if name} if named["train"] else {"train": folder}
    parts, classes = {}, None
    for part in ("train", "validation", "test"):
        if part in folders:
            paths, labels, classes = list_folder(folders[part], classes)
            parts[part] = (ImageFiles(paths, size=size or 64, channels=channels), labels)
    return _Source(parts, classes)


def _stratified(labels: np.ndarray, count: int, random: np.random.Generator, part: str) -> np.ndarray:
    """Sorted positions of `count` samples, of each class its share by largest remainder."""
    if not 0 <= count <= len(labels):
        raise ValueError(f"{part}={count}: there are {len(labels)} images to take from")
    kinds, sizes = np.unique(labels, return_counts=True)
    exact = sizes * count / max(1, len(labels))
    quota = np.floor(exact).astype(int)
    quota[np.argsort(quota - exact, kind="stable")[: count - quota.sum()]] += 1
    # the whole order of every class is drawn whatever the count, so that the next part's draws do not depend on it
    picked = [random.permutation(np.flatnonzero(labels == kind))[:n] for kind, n in zip(kinds, quota)]
    return np.sort(np.concatenate(picked)) if picked else np.empty(0, int)


def _taken(pixels: Any, indices: np.ndarray) -> Any:
    if _are_files(pixels):
        chosen = [pixels.paths[i] for i in indices]
        return ImageFiles(chosen, size=pixels.size, channels=pixels.channels, budget=pixels.budget)
    return pixels[indices]


def _are_files(pixels: Any) -> bool:
    return isinstance(pixels, ImageFiles)


def _idx_file(folder: Path, name: str) -> Path | None:
    return next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None)
