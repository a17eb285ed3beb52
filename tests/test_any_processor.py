"""What is promised bit for bit holds with products whose last bit depends on the number of rows, on any processor."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
import row_dependent
import torch

from data_gen import burgers, darcy, gray_scott, heat, helmholtz, navier_stokes, poisson, wave
from data_gen.kit.solving import one_by_one
from sciops.grids import Grid
from sciops.random_fields import gaussian_random_field, random_waves
from sciops.resampling import resample

SMALL = dict(samples=6, threads=1, progress=False, seed=7)
FEW = dict(duration=0.02, every=0.01)
CONFIGS = {
    "burgers": (burgers, replace(burgers.PRESETS["quick"], **SMALL, **FEW, resolutions=(32,))),
    "darcy": (darcy, replace(darcy.PRESETS["quick"], **SMALL, resolutions=(17,), modes=8)),
    "gray_scott": (gray_scott, replace(gray_scott.PRESETS["quick"], **SMALL, duration=2.0, every=2.0)),
    "heat": (heat, replace(heat.PRESETS["quick"], **SMALL, **FEW, resolutions=(32,))),
    "helmholtz": (helmholtz, replace(helmholtz.PRESETS["quick"], **SMALL)),
    "navier_stokes": (
        navier_stokes,
        replace(navier_stokes.PRESETS["quick"], **SMALL, resolutions=(16,), duration=1.0, solved_on=16),
    ),
    "poisson": (poisson, replace(poisson.PRESETS["quick"], **SMALL)),
    "wave": (wave, replace(wave.PRESETS["quick"], **SMALL)),
}


def test_rows_of_these_products_depend_on_their_number():
    """Otherwise the tests below could not fail."""
    x, a = (torch.randn(n, 50, generator=torch.Generator().manual_seed(n), dtype=torch.float64) for n in (7, 30))
    plain = x @ a.mT
    with row_dependent.products():
        for left, right in ((x, a.mT), (x.numpy(), a.numpy().T)):
            product = np.asarray(left @ right)
            np.testing.assert_allclose(product, plain, rtol=1e-12, atol=1e-13)
            assert not any(np.array_equal(left[:b] @ right, product[:b]) for b in (1, 2, 3))
        assert torch.equal(torch.eye(5, dtype=torch.float64) @ x[:5], x[:5])  # sums of one term stay exact
    assert torch.equal(x @ a.mT, plain)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_sample_has_the_same_bits_in_any_company(name):
    module, config = CONFIGS[name]
    with row_dependent.products():
        together = module.make(config, [(0, 6)])
        some = module.make(replace(config, threads=3), [(5, 6), (1, 3)])
    for key, values in some.items():
        np.testing.assert_array_equal(values, together[key][[5, 1, 2]])


def test_fields_and_aligned_nodes_have_the_same_bits():
    line, square = Grid((37,), centering="periodic"), Grid((9, 12))
    with row_dependent.products():
        fields = gaussian_random_field(square, 5, tau=3.0, alpha=2.0, seed=0, modes=6)
        one = gaussian_random_field(square, 1, first=3, tau=3.0, alpha=2.0, seed=0, modes=6)
        assert np.array_equal(fields[3:4], one)
        options = dict(terms=5, wavenumbers=(1, 4), amplitudes=(0.0, 1.0), seed=0)
        assert np.array_equal(random_waves(line, 5, **options)[3:4], random_waves(line, 1, first=3, **options))
        fine = resample(fields, square, Grid((15, 23)), "fourier", aligned=True)
    assert np.array_equal(fine[:, 0], fine[:, -1]) and np.array_equal(fine[..., 0], fine[..., -1])


def test_every_worker_has_one_thread_of_torch(monkeypatch):
    """A new thread does not inherit the number, and a transform over two threads is rounded differently."""
    told, numbers = set(), torch.set_num_threads
    monkeypatch.setattr(torch, "set_num_threads", lambda n: (n == 1 and told.add(threading.get_ident()), numbers(n)))
    together = threading.Barrier(3)

    def solve(sample):
        together.wait(timeout=60)
        return threading.get_ident()

    workers = one_by_one(solve, range(3), threads=3)
    assert len(set(workers)) == 3 and set(workers) <= told


def test_workers_keep_their_thread_of_torch_when_another_computation_sets_its_own_number():
    """The first question of a thread sets its number to the one that was set last in the process."""
    together, before = threading.Barrier(3), torch.get_num_threads()

    def solve(sample):
        if sample == 0:
            other = threading.Thread(target=torch.set_num_threads, args=(2,))
            other.start()
            other.join()
        together.wait(timeout=60)
        return torch.get_num_threads()

    try:
        assert one_by_one(solve, range(3), threads=3) == [1, 1, 1]
    finally:
        torch.set_num_threads(before)
