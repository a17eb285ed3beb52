"""Folders of images, one folder a class, read when they are asked for."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from sciops.datasets._messages import shown

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_TIFF_BITS, _TIFF_KIND, _WHITE_IS_ZERO = 258, 262, 0
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")


class ImageFiles:
    """The pixels of image files as an array of one size that is read on demand.

    paths : of the files
    size : pixels per side; the shorter side is resized to it (bilinear, antialiased), then the middle is cut out
    channels : 3 for red, green, blue; 1 for grey

    files[indices] : (batch, channels, size, size) uint8. Pixels of more than 8 bits are divided by the largest value of
        their format and multiplied by 255. The orientation an EXIF tag asks for is ignored: pixels are taken as they
        are stored. Transparency is dropped.

    Raises ValueError in one line that names the file, when it is read, where it is not an image, is a damaged one, or
    has numbers whose range its format does not state (32-bit integers, signed numbers, floating point).
    """

    def __init__(self, paths: list[Path], *, size: int, channels: int = 3) -> None:
        if size < 1 or channels not in (1, 3):
            raise ValueError(f"size={size}, channels={channels}: expected size ≥ 1 and channels 1 or 3")
        self.paths, self.size, self.channels = list(paths), size, channels
        self.shape = (len(self.paths), channels, size, size)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, indices: np.ndarray) -> np.ndarray:
        return np.stack([self._read(self.paths[i]) for i in np.atleast_1d(indices)])

    def _read(self, path: Path) -> np.ndarray:
        try:
            from PIL import Image
        except ImportError:
            raise ImportError("image files need pillow: pip install 'sciops[vision]'") from None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                # the size is refused before anything is unpacked
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                with Image.open(path, formats=_FORMATS) as image:
                    image = _eight_bits(image).convert("RGB" if self.channels == 3 else "L")
        except Exception as error:  # decoders raise anything on damaged files
            said = str(error) or type(error).__name__
            raise ValueError(
                f"{path}: not an image that can be read ({shown(said, 200)}); remove or replace it"
            ) from None
        scale = self.size / min(image.size)
        wide, high = (max(self.size, round(n * scale)) for n in image.size)
        if (wide, high) != image.size:
            image = image.resize((wide, high), Image.Resampling.BILINEAR)
        left, top = (wide - self.size) // 2, (high - self.size) // 2
        pixels = np.asarray(image)[top : top + self.size, left : left + self.size]
        return pixels.reshape(self.size, self.size, self.channels).transpose(2, 0, 1)


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
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > most:
        raise ValueError(f"its pixels lie in {values.min()} … {values.max()}, and its format holds 0 … {most}")
    if image.format == "TIFF" and image.tag_v2.get(_TIFF_KIND) == _WHITE_IS_ZERO:
        values = most - values
    return Image.fromarray(((2 * 255 * values + most) // (2 * most)).astype(np.uint8))  # rounded


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
