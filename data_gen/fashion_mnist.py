"""Fashion-MNIST: finds the four IDX files, checks them, and says, or with --install does, what gets them.

python -m data_gen.fashion_mnist                          # where is it, is it whole?
python -m data_gen.fashion_mnist --install                # apt-get install dataset-fashion-mnist (Debian; needs root)
python -m data_gen.fashion_mnist --path folder            # files from elsewhere
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sciops.command import command
from sciops.datasets.images import find_fashion_mnist, read_idx_folder
from sciops.datasets.images.loading import FASHION, INSTALL

__all__ = ["PRESETS", "FashionMnistConfig", "run"]

_SIZES = {"train": 60_000, "test": 10_000}


@dataclass(frozen=True)
class FashionMnistConfig:
    """Where to look, and whether to install."""

    path: Path | None = None
    """Folder of the IDX files; $SCIOPS_DATA/fashion-mnist or Debian's place unless given."""
    install: bool = False
    """Run apt-get where the files are not found."""


PRESETS = {"default": FashionMnistConfig()}


def run(config: FashionMnistConfig) -> Path:
    """Checks the files, prints what they hold, returns their folder.

    Raises FileNotFoundError naming the command where they are not found; ValueError for files that are damaged or not
    the published set: 60 000 + 10 000 images of 28×28, of each class the same number; RuntimeError where apt-get fails.
    """
    try:
        folder = find_fashion_mnist(config.path)
    except FileNotFoundError:
        if not config.install:
            raise
        _install()
        folder = find_fashion_mnist(config.path)
    print(f"Fashion-MNIST in {folder}")
    for part, (images, labels) in read_idx_folder(folder).items():
        each = np.bincount(labels, minlength=len(FASHION))
        if images.shape != (_SIZES[part], 1, 28, 28) or (each != _SIZES[part] // len(FASHION)).any():
            raise ValueError(
                f"{folder}: {part} holds {images.shape[0]} images of {images.shape[2]}×{images.shape[3]}, "
                f"{each.min()} to {each.max()} a class; Fashion-MNIST has {_SIZES[part]} of 28×28, as many of each"
            )
        print(f"{part}: {len(images)} images of 28×28, {each[0]} of each of {len(FASHION)} classes")
    return folder


def _install() -> None:
    try:
        done = subprocess.run(INSTALL.replace("install", "install -y").split(), capture_output=True, text=True)
    except FileNotFoundError:
        raise RuntimeError("there is no apt-get here; get the four IDX files and pass --path FOLDER") from None
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"{INSTALL}: {said}; run it as root, after apt-get update")


if __name__ == "__main__":
    command(run, PRESETS)
