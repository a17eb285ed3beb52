"""Labelled images: readers that never unpickle, and data sets for `sciops.training.fit`.

`load_images("digits")` needs no download; "fashion-mnist" is found where Debian's package puts it; CIFAR's binary
version, MNIST-like IDX files and folders of images are read from a path.
"""

from __future__ import annotations

from sciops.datasets.images.cifar import read_cifar
from sciops.datasets.images.dataset import ImageDataset
from sciops.datasets.images.digits import read_digits
from sciops.datasets.images.folders import ImageFiles
from sciops.datasets.images.idx import read_idx, write_idx
from sciops.datasets.images.loading import find_fashion_mnist, load_images, read_idx_folder

__all__ = [
    "ImageDataset",
    "ImageFiles",
    "find_fashion_mnist",
    "load_images",
    "read_cifar",
    "read_digits",
    "read_idx",
    "read_idx_folder",
    "write_idx",
]
