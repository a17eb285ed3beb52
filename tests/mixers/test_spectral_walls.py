"""Sine and cosine bases: functions of the domain, the same on every grid."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.mixers import SpectralMixer

STOPS_SHORT = Grid((16, 16), extent=((0, 390 / 420),) * 2, domain=((0, 1),) * 2)
GRIDS = {
    "nodes": Grid((17, 21), extent=((0, 1), (-1, 2))),
    "fine nodes": Grid((65, 41), extent=((0, 1), (-1, 2))),
    "short nodes": Grid((16, 19), extent=((0, 0.93), (-0.9, 1.8)), domain=((0, 1), (-1, 2))),
    "cells": Grid((14, 15), extent=((0, 1), (-1, 2)), centering="cell"),
    "periodic": Grid((18, 17), extent=((0, 1), (-1, 2)), centering="periodic"),
}


def modes_at(grid: Grid, kind: str, numbers: tuple[int, ...]) -> torch.Tensor:
    """The product of the modes with these wavenumbers, one per axis."""
    function = np.sin if kind == "sine" else np.cos
    factors = [
        function(k * math.pi * (x - lo) / (hi - lo)) for k, x, (lo, hi) in zip(numbers, grid.coordinates(), grid.domain)
    ]
    return torch.from_numpy(np.multiply.outer(*factors))


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("kind, first", [("sine", 1), ("cosine", 0)])
def test_every_mode_meets_only_its_own_matrix(name, kind, first):
    torch.manual_seed(0)
    grid = GRIDS[name]
    mixer = SpectralMixer(2, (5, 6), basis=kind).double()
    for p in range(5):
        for q in range(6):
            mode = modes_at(grid, kind, (p + first, q + first))
            vector = torch.randn(2, dtype=torch.float64)
            result = mixer((mode[..., None] * vector)[None], grid)[0]
            expected = mode[..., None] * (vector @ mixer.parts[0].weight[p, q])
            assert (result - expected).abs().max() < 1e-11


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("basis", ["sine", "cosine", "sine-cosine"])
@pytest.mark.parametrize("weights", ["dense", "diagonal"])
def test_a_band_limited_function_has_one_answer_on_all_grids(name, basis, weights):
    """Expected values come from the modes evaluated at the points, never from another run of the layer."""
    torch.manual_seed(0)
    mixer = SpectralMixer(4, (5, 4), basis=basis, weights=weights).double()
    kinds = ["sine", "sine", "cosine", "cosine"] if basis == "sine-cosine" else [basis] * 4
    coefficients = torch.randn(5, 4, 4, dtype=torch.float64)

    def field(grid, values, kind):
        first = 1 if kind == "sine" else 0
        total = torch.zeros(*grid.shape, dtype=torch.float64)
        for p in range(5):
            for q in range(4):
                total += values[p, q] * modes_at(grid, kind, (p + first, q + first))
        return total

    moved, start = [], 0
    for part in mixer.parts:
        c = coefficients[..., start : start + part.channels]
        start += part.channels
        moved.append(
            torch.einsum("pqc,pqco->pqo", c, part.weight) if part.shared is None else (c @ part.shared) * part.weight
        )
    moved = torch.cat(moved, -1)
    grid = GRIDS[name]
    x = torch.stack([field(grid, coefficients[..., c], kinds[c]) for c in range(4)], -1)
    expected = torch.stack([field(grid, moved[..., c], kinds[c]) for c in range(4)], -1)
    assert (mixer(x[None], grid)[0] - expected).abs().max() < 1e-10 * expected.abs().max()


def test_nested_grids_agree_at_shared_points():
    torch.manual_seed(0)
    mixer = SpectralMixer(2, (7, 7), basis="sine-cosine").double()
    fine = Grid((32, 32), extent=403 / 420, domain=(0, 1))
    coarse = fine.coarsen(2)
    assert coarse.same_points(STOPS_SHORT)
    x = torch.stack([modes_at(fine, "sine", (2, 7)), modes_at(fine, "cosine", (6, 1))], -1)[None]
    on_fine, on_coarse = mixer(x, fine), mixer(x[:, ::2, ::2], coarse)
    assert (on_fine[:, ::2, ::2] - on_coarse).abs().max() < 1e-11


@pytest.mark.parametrize("basis, most", [("sine", 15), ("cosine", 16)])
def test_all_modes_of_the_nodes_reproduce_the_field(basis, most):
    """With the identity as weight, DST-I and DCT-I followed by their inverses give the field back."""
    mixer = SpectralMixer(1, (most, most), basis=basis).double()
    with torch.no_grad():
        mixer.parts[0].weight.fill_(1.0)
    points = most + 2 if basis == "sine" else most
    x = torch.randn(3, points, points, 1, dtype=torch.float64)
    if basis == "sine":
        x[:, [0, -1]] = 0
        x[:, :, [0, -1]] = 0
    assert (mixer(x) - x).abs().max() < 1e-12
    with pytest.raises(ValueError, match=f"at most .{most - 1}, {most - 1}."):
        mixer(x[:, :-1, :-1])
    clipped = SpectralMixer(1, (most, most), basis=basis, clip_modes=True).double()
    clipped(x[:, :-1, :-1])


def test_the_result_obeys_the_wall():
    torch.manual_seed(0)
    x = torch.randn(2, 33, 17, 3, dtype=torch.float64)
    y = SpectralMixer(3, (6, 6), basis="sine").double()(x)
    assert y[:, [0, -1]].abs().max() < 1e-13 and y[:, :, [0, -1]].abs().max() < 1e-13
    assert y[:, 1:-1, 1:-1].abs().max() > 0.1
    y = SpectralMixer(3, (4, 4), basis="cosine").double()(x)
    # an even function of the distance to the wall has no odd terms: (−3u₀ + 4u₁ − u₂)/2h is O(h²) at a flat end
    slope = (-3 * y[:, 0] + 4 * y[:, 1] - y[:, 2]).abs().max()
    assert slope < 0.05 * (y[:, 1:] - y[:, :-1]).abs().max()


def test_one_and_three_axes():
    torch.manual_seed(0)
    for grid, modes in ((Grid(9), (4,)), (Grid((6, 7, 8), centering="cell"), (3, 2, 4))):
        mixer = SpectralMixer(1, modes, basis="cosine").double()
        with torch.no_grad():
            mixer.parts[0].weight.fill_(1.0)
        x = torch.randn(2, *grid.shape, 1, dtype=torch.float64)
        once = mixer(x, grid)
        assert (mixer(once, grid) - once).abs().max() < 1e-12  # a projection
        # cell and node projections onto the kept modes keep the (weighted) mean, the k = 0 coefficient
        w = torch.from_numpy(grid.weights()).reshape(1, *grid.shape, 1)
        assert abs(((once - x) * w).sum()) < 1e-12


def test_refuses_modes_the_points_cannot_tell_apart():
    """Half the domain: sixteen nodes there hold far fewer than fourteen sine modes of the whole."""
    half = Grid((16, 16), extent=(0, 0.5), domain=(0, 1))
    with pytest.raises(ValueError, match="do not fit a 16×16 grid: at most .* a finer grid"):
        SpectralMixer(1, (14, 14), basis="sine")(torch.randn(1, 16, 16, 1), half)
    SpectralMixer(1, (14, 14), basis="sine")(torch.randn(1, 16, 16, 1), STOPS_SHORT)
