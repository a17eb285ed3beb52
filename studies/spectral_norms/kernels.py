"""Kernels of convolutions to compare bounds on: Gaussian ones, and those of small networks trained on digits."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sciops.datasets.images.digits import LEVELS, read_digits

KINDS = ("Gaussian", "trained")


def kernel_of(kind: str, channels: int, size: int, seed: int, steps: int = 60) -> Tensor:
    """A kernel (channels, channels, size, size), float64.

    kind : "Gaussian", entries of variance 1/(channels·size²), or "trained", the second of two convolutions with a mean
        and a linear map after them, trained for `steps` steps of Adam on scikit-learn's digits

    Raises
    ------
    ValueError
        For another kind.
    ImportError
        Where scikit-learn is missing and the kernel is to be trained.
    """
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r}: expected one of {', '.join(KINDS)}")
    if kind == "Gaussian":
        generator = torch.Generator().manual_seed(seed)
        shape = (channels, channels, size, size)
        return torch.randn(shape, dtype=torch.float64, generator=generator) / (size * channels**0.5)
    images, labels = (torch.from_numpy(array) for array in read_digits())
    images = images.float() / LEVELS
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = nn.Sequential(
            nn.Conv2d(1, channels, size, padding="same"),
            nn.ReLU(),
            nn.Conv2d(channels, channels, size, padding="same"),
            nn.ReLU(),
            nn.AvgPool2d(4),
            nn.Flatten(),
            nn.Linear(4 * channels, 10),
        )
        optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
        for _ in range(steps):
            batch = torch.randint(len(images), (64,))
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(images[batch]), labels[batch]).backward()
            optimizer.step()
    trained: Tensor = network[2].weight  # type: ignore[assignment]
    return trained.detach().double()
