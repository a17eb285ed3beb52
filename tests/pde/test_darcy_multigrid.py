"""The multigrid preconditioner: Galerkin products, adjoints, a symmetric positive cycle, two forms that agree."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.pde import _five_point as scheme
from sciops.pde import _multigrid_torch as mg
from sciops.pde._galerkin import NEIGHBOURS, galerkin_products


def faces_of(a: np.ndarray):
    return scheme.conductances(torch.from_numpy(a)[:, None], scheme.axes_of(Grid(a.shape[1:])))


def interpolation_matrix(level: mg.Level, coarse: tuple[int, int]) -> torch.Tensor:
    """P as a dense (fine, coarse) matrix, one entry at a time from the stored weights."""
    (mx, my), (cx, cy) = level.shape, coarse
    P = torch.zeros(mx * my, cx * cy, dtype=level.inverse.dtype)
    for I in range(1, cx + 1):
        for J in range(1, cy + 1):
            column = (I - 1) * cy + J - 1
            P[(2 * I - 1) * my + 2 * J - 1, column] = 1.0
            for k, (dx, dy) in enumerate(NEIGHBOURS):
                i, j = 2 * I + dx, 2 * J + dy
                weight = level.weights[0, k, I, J]
                if i <= mx and j <= my:
                    P[(i - 1) * my + j - 1, column] = weight
                else:
                    assert weight == 0.0  # beyond the last unknown there is nothing to interpolate to
    return P


@pytest.mark.parametrize("shape", [(n, n) for n in range(5, 17)] + [(6, 15), (16, 7)])
def test_coarse_operators_are_galerkin_products(shape):
    a = np.exp(2 * np.random.default_rng(sum(shape)).standard_normal((1, *shape)))
    hierarchy = mg.build(*faces_of(a), dtype=torch.float64)
    assert len(hierarchy.levels) > 1
    for fine, coarse in zip(hierarchy.levels, hierarchy.levels[1:]):
        P, A = interpolation_matrix(fine, coarse.shape), mg.dense(fine)[0]
        expected, stored = P.T @ A @ P, mg.dense(coarse)[0]
        assert (stored - expected).abs().max() <= 2e-15 * expected.abs().max()
        assert torch.equal(stored, stored.T)


def test_weights_reproduce_the_stencil_collapsed_onto_a_line(field):
    """A constant is interpolated exactly away from the wall, and falls off towards it."""
    hierarchy = mg.build(*faces_of(field("100", 33, 1)), dtype=torch.float64)
    for fine, coarse in zip(hierarchy.levels, hierarchy.levels[1:]):
        ones = interpolation_matrix(fine, coarse.shape).sum(1).view(fine.shape)
        assert ones.max() <= 1 + 1e-12 and ones.min() > 0
    first = interpolation_matrix(hierarchy.levels[0], hierarchy.levels[1].shape).sum(1).view(31, 31)
    assert (first[1:-1, 1:-1] - 1).abs().max() < 1e-12
    assert first[0].max() < 1 and first[:, -1].max() < 1


def test_products_are_all_there():
    """69 products from five points and 109 from nine, counting those that stand for two."""
    for nine, count in ((False, 69), (True, 109)):
        assert sum(f for by in galerkin_products(nine).values() for p in by.values() for _, _, f in p) == count


def torch_cycle(a: np.ndarray, dtype: torch.dtype):
    hierarchy = mg.build(*faces_of(a), dtype=dtype)

    def inverse(x: np.ndarray) -> np.ndarray:
        f = torch.zeros_like(hierarchy.levels[0].inverse)
        hierarchy.levels[0].square(f)[:, 1:-2, 1:-2] = torch.from_numpy(x)
        return hierarchy.levels[0].square(mg.cycle(hierarchy, f))[0, 1:-2, 1:-2].double().numpy()

    return inverse


def compiled():
    return (
        pytest.importorskip("sciops.pde._numba_kernels"),
        pytest.importorskip("sciops.pde._multigrid_numba").layout,
    )


def numba_cycle(a: np.ndarray):
    kernels, layout = compiled()
    faces = [face[0].numpy() for face in faces_of(a)]
    shapes, start, size = layout(*(n - 2 for n in a.shape[1:]))
    work = np.zeros(size, dtype=np.float32)
    kernels.setup(*faces, work, shapes, start)
    level = [kernels.as_matrix(array, shapes[0]) for array in kernels.arrays_of(work, start, shapes, 0)]

    def inverse(x: np.ndarray) -> np.ndarray:
        level[5][1:-2, 1:-2] = x
        kernels.cycle(work, shapes, start, False)
        return level[6][1:-2, 1:-2].astype(np.float64)

    return inverse


@pytest.mark.parametrize("kind", ["4", "1e4", "lognormal1"])
@pytest.mark.parametrize("form", ["float64", "float32", "numba"])
def test_cycle_is_symmetric_and_positive(field, kind, form):
    a = field(kind, 70, 1)
    inverse = numba_cycle(a) if form == "numba" else torch_cycle(a, getattr(torch, form))
    rng = np.random.default_rng(1)
    for _ in range(3):
        x, y = rng.standard_normal((2, 68, 68))
        Bx, By = inverse(x), inverse(y)
        assert (Bx * x).sum() > 0 and (By * y).sum() > 0
        asymmetry = abs((Bx * y).sum() - (By * x).sum()) / np.sqrt((Bx * x).sum() * (By * y).sum())
        assert asymmetry <= (2e-15 if form == "float64" else 1e-7)


def test_cycle_is_a_contraction(field):
    """‖I − BA‖ in the energy norm, by power iteration: what makes 8 iterations enough."""
    a = field("4", 65, 1)
    inverse, faces = torch_cycle(a, torch.float64), faces_of(a)
    e = np.random.default_rng(0).standard_normal((63, 63))
    rate = 0.0
    for _ in range(30):
        new = e - inverse(scheme.apply(*faces, torch.from_numpy(e)[None])[0].numpy())
        rate, e = np.linalg.norm(new) / np.linalg.norm(e), new / np.linalg.norm(new)
    assert rate < 0.35


@pytest.mark.parametrize("shape", [(34, 34), (33, 33), (18, 41), (3, 30), (30, 3)])
def test_both_forms_hold_the_same_hierarchy_and_cycle(shape):
    kernels, layout = compiled()
    rng = np.random.default_rng(2)
    a = np.exp(rng.standard_normal((1, *shape)))
    faces = faces_of(a)
    hierarchy = mg.build(*faces)
    shapes, start, size = layout(shape[0] - 2, shape[1] - 2)
    work = np.zeros(size, dtype=np.float32)
    kernels.setup(*(face[0].numpy() for face in faces), work, shapes, start)
    assert [tuple(s) for s in shapes] == [level.shape for level in hierarchy.levels]
    for k, level in enumerate(hierarchy.levels):
        arrays = dict(zip(("d", "e", "s", "se", "sw"), kernels.arrays_of(work, start, shapes, k)))
        for name, flat in level.stencil.items():
            mine = kernels.as_matrix(arrays[name], shapes[k])[1:-2, 1:-2]
            theirs = level.square(flat)[0, 1:-2, 1:-2].numpy()
            assert np.abs(mine - theirs).max() <= 2e-6 * np.abs(arrays["d"]).max()
    x = rng.standard_normal((shape[0] - 2, shape[1] - 2))
    mine, theirs = numba_cycle(a)(x), torch_cycle(a, torch.float32)(x)
    assert np.abs(mine - theirs).max() <= 1e-5 * np.abs(theirs).max()


def test_the_cache_on_disk_follows_every_file_that_is_compiled_in():
    """numba watches the cached function's own file alone; the checksum of the others is part of the key."""
    solver = pytest.importorskip("sciops.pde._numba_solve")
    folder, found, todo = Path(solver.__file__).parent, set(), ["_numba_solve.py"]
    while todo:
        found.add(name := todo.pop())
        imports = [
            node for node in ast.walk(ast.parse((folder / name).read_text())) if isinstance(node, ast.ImportFrom)
        ]
        todo += [
            file
            for node in imports
            if node.module.startswith("sciops.pde.")
            for file in [node.module.removeprefix("sciops.pde.") + ".py"]
            if file not in found
        ]
    assert found == set(solver._SOURCES)

    class Codegen:
        magic_tuple = staticmethod(tuple)

    one, same, other = (solver.compiled(c)._cache._index_key("signature", Codegen) for c in (1, 1, 2))
    assert one == same != other
