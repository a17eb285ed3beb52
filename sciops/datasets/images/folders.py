"""Folders of images, one folder a class, read when they are asked for."""

from __future__ import annotations

import io
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from sciops.files.budget import Budget, Spending, current_budget, over_budget
from sciops.files.untrusted import check_regular, refusing

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_TIFF_BITS, _TIFF_KIND, _WHITE_IS_ZERO = 258, 262, 0
_PASS = 1.3e-9  # seconds of a scan for a pixel
_PIECE = 1 << 16  # bytes that are counted at once
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")


class ImageFiles:
    """The pixels of image files as an array of one size that is read on demand.

    paths : of the files
    size : pixels per side; the shorter side is resized to it (bilinear, antialiased), then the middle is cut out
    channels : 3 for red, green, blue; 1 for grey

    files[indices] : (batch, channels, size, size) uint8. Pixels of more than 8 bits are divided by the largest value of
        their format and multiplied by 255. The orientation an EXIF tag asks for is ignored: pixels are taken as they
        are stored. Transparency is dropped.

    budget : of each file, as in `sciops.open_dataset`: what its pixels take, by the size in its header, before they are
        unpacked. How many files there are is not limited

    Raises ValueError in one line that names the file, when it is read, where it is not an image, is a damaged one, has
    numbers whose range its format does not state (32-bit integers, signed numbers, floating point), or takes more than
    its budget.
    """

    def __init__(self, paths: list[Path], *, size: int, channels: int = 3, budget: Budget | None = None) -> None:
        if size < 1 or channels not in (1, 3):
            raise ValueError(f"size={size}, channels={channels}: expected size ≥ 1 and channels 1 or 3")
        self.paths, self.size, self.channels = list(paths), size, channels
        self.shape = (len(self.paths), channels, size, size)
        self.budget = budget or current_budget()

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, indices: np.ndarray) -> np.ndarray:
        return np.stack([self._read(self.paths[i]) for i in np.atleast_1d(indices)])

    def _read(self, path: Path) -> np.ndarray:
        try:
            from PIL import Image
        except ImportError:
            raise ImportError("image files need pillow: pip install 'sciops[vision]'") from None
        spent = Spending(check_regular(path), budget=self.budget)
        mode = "RGB" if self.channels == 3 else "L"
        damaged = refusing(f"{path}: not an image that can be read ({{error}}); remove or replace it")
        with damaged, warnings.catch_warnings(), open(path, "rb", buffering=0) as raw:
            warnings.simplefilter("ignore")
            with _opened(_Counted(raw, spent)) as image:
                wide, high = image.size
                scale = self.size / min(image.size)
                resized = tuple(max(self.size, round(n * scale)) for n in image.size)
                each = _bytes_of_pixel(image.mode) + _bytes_of_pixel(mode)
                spent.take(bytes=wide * high * each, what=f"{wide}×{high} pixels")
                made = resized[0] * resized[1] * _bytes_of_pixel(mode) if resized != image.size else 0
                if image.format in ("JPEG", "MPO"):
                    _check_scans(path, wide * high, self.budget)
                spent.take(bytes=2 * made, what=f"resizing {wide}×{high} pixels to {resized[0]}×{resized[1]}")
                image = _eight_bits(image).convert(mode)
                spent.take(what=f"{wide}×{high} pixels")
        wide, high = resized
        if (wide, high) != image.size:
            image = image.resize((wide, high), Image.Resampling.BILINEAR)
        left, top = (wide - self.size) // 2, (high - self.size) // 2
        pixels = np.asarray(image)[top : top + self.size, left : left + self.size]
        return pixels.reshape(self.size, self.size, self.channels).transpose(2, 0, 1)


class _Counted(io.BufferedReader):
    """An open file that is read no further than its budget: the entries of a TIFF may all name the same bytes."""

    def __init__(self, raw: io.RawIOBase, spent: Spending) -> None:
        super().__init__(raw)
        self._spent, self._count = spent, 0

    def read(self, size: int | None = -1) -> bytes:
        content = super().read(-1 if size is None else size)
        self._count += len(content)
        if self._count > _PIECE:
            self._spent.take(bytes=self._count, what="what it says of its pixels")
            self._count = 0
        return content


def _opened(file: io.BufferedReader) -> Any:
    """What Pillow makes of the header, whatever size that states: its own bound of the size belongs to the process."""
    from PIL import Image, UnidentifiedImageError

    Image.init()
    begins = file.read(16)
    for name in _FORMATS:
        open_header, accepts = Image.OPEN.get(name, (None, None))
        if open_header is not None and accepts is not None and accepts(begins) is True:
            file.seek(0)
            return open_header(file, "")
    raise UnidentifiedImageError("its first bytes are not those of " + ", ".join(_FORMATS))


def _check_scans(path: Path, pixels: int, budget: Budget) -> None:
    """Raises OverBudget for a JPEG of very many scans, each of some 100 bytes and a pass over all its pixels."""
    scans = path.read_bytes().count(b"\xff\xda")
    seconds = _PASS * scans * pixels
    if seconds > budget.seconds:
        raise over_budget(path, "seconds", seconds, budget, f"decoding its {scans} scans")


def _bytes_of_pixel(mode: str) -> int:
    """What a pixel takes while `_eight_bits` or a conversion has it: Pillow keeps four bytes of several bands."""
    if mode in ("1", "L", "P"):
        return 1
    return 16 if mode in ("I", "F") or mode.startswith("I;") else 4


def _eight_bits(image: Any) -> Any:
    """The image, one of wider numbers scaled by the range of its format: 65535 becomes 255, where Pillow's own
    conversion clips."""
    if image.mode not in ("I", "F") and not image.mode.startswith("I;"):
        return image
    from PIL import Image

    bits = 16
    if image.format == "TIFF":
        bits = int(image.tag_v2.get(_TIFF_BITS, (0,))[0])
        if image.mode in ("I", "F"):
            kind = "floating-point numbers" if image.mode == "F" else "signed or 32-bit whole numbers"
            raise ValueError(f"its pixels are {kind}, of which the format states no range: save them with 8 or 16 bits")
    most = 2**bits - 1
    values = np.asarray(image).astype(np.int32)
    if values.min() < 0 or values.max() > most:
        raise ValueError(f"its pixels lie in {values.min()} … {values.max()}, and its format holds 0 … {most}")
    if image.format == "TIFF" and image.tag_v2.get(_TIFF_KIND) == _WHITE_IS_ZERO:
        values = most - values
    values *= 2 * 255
    values += most
    values //= 2 * most  # rounded
    return Image.fromarray(values.astype(np.uint8))


def list_folder(folder: str | os.PathLike, classes: tuple[str, ...] | None = None):
    """(paths, labels, class names) of a folder with one folder a class, in sorted order.

    classes : names that are known already, from the training folder; None takes those that are there

    Files that do not end like an image, and hidden ones, are passed over.

    Raises ValueError for fewer than two classes, a class without images and a class that is not among `classes`.
    """
    folder = Path(folder)
    found = class_folders(folder)
    names = classes or found
    if len(names) < 2:
        raise ValueError(f"{folder} holds {len(found)} folders; expected one folder of images a class, at least two")
    unknown = [name for name in found if name not in names]
    if unknown:
        raise ValueError(f"{folder} has a class {unknown[0]!r} that the training images do not have")
    paths: list[Path] = []
    labels: list[int] = []
    for name in found:
        inside = sorted(p for p in (folder / name).rglob("*") if _is_image(p))
        if not inside:
            raise ValueError(f"{folder / name} holds no images ({', '.join(SUFFIXES)}); remove the folder or fill it")
        paths += inside
        labels += [names.index(name)] * len(inside)
    return paths, np.asarray(labels, np.int64), tuple(names)


def class_folders(folder: Path) -> tuple[str, ...]:
    """Names of the folders in `folder`, hidden ones left out, sorted."""
    return tuple(sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")))


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
