"""The multigrid preconditioner: Galerkin products, adjoints, a symmetric positive cycle, two forms that agree."""

from __future__ import annotations

import ast
import importlib
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.pde.darcy import five_point as scheme
from sciops.pde.darcy.batched import multigrid as mg
from sciops.pde.darcy.batched.hierarchy import dense
from sciops.pde.darcy.direct import solve_directly
from sciops.pde.darcy.galerkin import BOTH, COUPLING, ROWS, STORED, galerkin_products, interpolated
from sciops.pde.darcy.multigrid import Way, coarsening, level_shapes

CLOSED = (("neumann", "neumann"),) * 2


def faces_of(a: np.ndarray, kinds=scheme.DIRICHLET):
    """Conductances of a (batch, nx, ny), or of (batch, 2, nx, ny) for a diagonal tensor."""
    a = torch.from_numpy(a)
    a, axes = a if a.ndim == 4 else a[:, None], scheme.axes_of(Grid(tuple(a.shape[-2:])), kinds)
    return scheme.conductances(scheme.padded(a, axes), axes)


def interpolation_matrix(level: mg.Level, coarse: tuple[int, int]) -> torch.Tensor:
    """P as a dense (fine, coarse) matrix, one entry at a time from the stored weights."""
    (mx, my), (cx, cy) = level.shape, coarse
    P = torch.zeros(mx * my, cx * cy, dtype=level.inverse.dtype)
    across = level.steps[1]
    for I in range(1, cx + 1):
        for J in range(1, cy + 1):
            column = (I - 1) * cy + J - 1
            P[(2 * I - 1) * my + across * J - 1, column] = 1.0
            for k, (dx, dy) in enumerate(interpolated(level.steps)):
                i, j = 2 * I + dx, across * J + dy
                weight = level.weights[0, k, I, J]
                if i <= mx and j <= my:
                    P[(i - 1) * my + j - 1, column] = weight
                else:
                    assert weight == 0.0  # beyond the last unknown there is nothing to interpolate to
    return P


@pytest.mark.parametrize("shape", [(n, n) for n in range(5, 17)] + [(6, 15), (16, 7)])
@pytest.mark.parametrize("rows_alone", [0, 1, 2, 9])
def test_coarse_operators_are_galerkin_products(shape, rows_alone):
    a = np.exp(2 * np.random.default_rng(sum(shape)).standard_normal((1, 2, *shape)))
    hierarchy = mg.build(*faces_of(a), dtype=torch.float64, rows_alone=rows_alone)
    steps = [level.steps for level in hierarchy.levels[:-1]]
    assert steps == [ROWS] * min(rows_alone, len(steps)) + [BOTH] * max(0, len(steps) - rows_alone) and steps
    for fine, coarse in zip(hierarchy.levels, hierarchy.levels[1:]):
        P, A = interpolation_matrix(fine, coarse.shape), dense(fine)[0]
        expected, stored = P.T @ A @ P, dense(coarse)[0]
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


def test_between_closed_walls_constants_are_interpolated_exactly_and_stay_in_the_kernel(field):
    for rows_alone in (0, 3):
        a = np.stack([4.0**rows_alone * field("100", 34, 1), field("100", 34, 1)], 1)
        levels = mg.build(*faces_of(a, CLOSED), torch.float64, rows_alone, singular=True).levels
        for fine, coarse in zip(levels, levels[1:]):
            ones = interpolation_matrix(fine, coarse.shape).sum(1)
            assert (ones - 1).abs().max() < 1e-8  # d − c_N − c_S loses digits
            assert dense(coarse)[0].sum(1).abs().max() <= 1e-10 * levels[0].stencil["d"].max()


def test_products_are_all_there():
    """69 products from five points and 109 from nine, counting those that stand for two; 15 and 23 by rows alone."""
    for nine, steps, count in ((False, BOTH, 69), (True, BOTH, 109), (False, ROWS, 15), (True, ROWS, 23)):
        table = galerkin_products(nine, steps)
        assert sum(f for by in table.values() for p in by.values() for _, _, f in p) == count


def test_the_stronger_axis_is_halved_until_both_are_alike():
    """Ratio of conductances ρ → ρ/4 by each halving of the first axis: what is left lies in [½, 2]."""
    for octaves in np.linspace(-20, 20, 201):
        turned, rows_alone = coarsening(octaves)
        left = abs(octaves) - 2 * rows_alone
        assert -1 <= left <= 1 and turned == (octaves < -1)
    assert coarsening(0.0) == coarsening(1e-15) == coarsening(-1e-15) == (False, 0)
    assert level_shapes(40, 6, 2) == [(40, 6), (20, 6), (10, 6), (5, 3), (2, 1)]


@pytest.mark.parametrize(
    "kind, nine, steps", [("both", True, BOTH), ("both", False, BOTH), ("rows", True, ROWS), ("rows", False, ROWS)]
)
def test_written_out_galerkin_products_are_the_listed_ones(kind, nine, steps, monkeypatch):
    """The formulas that numba compiles, run uncompiled in float64, against the list that defines them."""
    compiled = pytest.importorskip("sciops.pde.darcy.compiled.galerkin")
    monkeypatch.setattr(compiled, "at", lambda memory, offset: memory[offset:])
    written = getattr(compiled, f"{kind}_from_{'nine' if nine else 'five'}")
    rng, (mx, my) = np.random.default_rng(0), (3, 2)
    order, fine_shape = interpolated(steps), (2 * mx + 4, steps[1] * my + 4)
    fine = {name: rng.standard_normal(fine_shape) for name in STORED}
    P, coarse = rng.standard_normal((len(order), mx + 2, my + 2)), {name: np.zeros((mx + 3, my + 3)) for name in STORED}
    arrays = (array.reshape(-1) for array in (*fine.values(), P, *coarse.values()))
    written(*arrays, mx, my, fine_shape[1])

    def weight(delta, i, j):
        return 1.0 if delta == (0, 0) else P[order.index(delta), i, j]

    for (target, shift), i, j in itertools.product(STORED.items(), range(1, mx + 1), range(1, my + 1)):
        total = 0.0
        for delta, pairs in galerkin_products(nine, steps)[target].items():
            for o, other, factor in pairs:
                name, holder = COUPLING[o]
                at = (2 * i + delta[0] + holder[0], steps[1] * j + delta[1] + holder[1])
                entry = fine[name][at] * (1.0 if o == (0, 0) else -1.0)
                total += factor * weight(delta, i, j) * entry * weight(other, i + shift[0], j + shift[1])
        assert abs(coarse[target][i, j] - (total if target == "d" else -total)) < 1e-13


def torch_cycle(a: np.ndarray, dtype: torch.dtype, kinds=scheme.DIRICHLET, rows_alone: int = 0, call=mg.cycle):
    hierarchy = mg.build(*faces_of(a, kinds), dtype, rows_alone, singular=kinds == CLOSED)

    def inverse(x: np.ndarray) -> np.ndarray:
        f = torch.zeros_like(hierarchy.levels[0].inverse)
        hierarchy.levels[0].square(f)[:, 1:-2, 1:-2] = torch.from_numpy(x)
        return hierarchy.levels[0].square(call(hierarchy, f))[0, 1:-2, 1:-2].double().numpy()

    return inverse


def numba_level(faces, rows_alone: int):
    """(workspace, shapes, starts of the levels) after the set-up."""
    compiled_cycle = pytest.importorskip("compiled_cycle")
    layout = importlib.import_module("sciops.pde.darcy.compiled.batch").layout
    shapes, start, size = layout(faces[0].shape[1], faces[1].shape[2], rows_alone)
    work = np.zeros(size, dtype=np.float32)
    compiled_cycle.setup_points(*(face[0].numpy() for face in faces), work, shapes, start)
    return work, shapes, start


def arrays_of(work, shapes, start, level: int) -> list[np.ndarray]:
    """d, e, s, se, sw, f, u, r of a level, halo included, as views of the workspace."""
    rows, columns = shapes[level] + 3
    return [work[at : at + rows * columns].reshape(rows, columns) for at in start[level, :8]]


def numba_cycle(a: np.ndarray, kinds=scheme.DIRICHLET, rows_alone: int = 0, call="cycle"):
    work, shapes, start = numba_level(faces_of(a, kinds), rows_alone)
    finest = arrays_of(work, shapes, start, 0)

    def inverse(x: np.ndarray) -> np.ndarray:
        finest[5][1:-2, 1:-2] = x
        getattr(importlib.import_module("compiled_cycle"), f"{call}_points")(work, shapes, start, kinds == CLOSED)
        return finest[6][1:-2, 1:-2].astype(np.float64)

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


@pytest.mark.parametrize("rows_alone", [0, 2, 20])
@pytest.mark.parametrize("kinds", [scheme.DIRICHLET, CLOSED, (("dirichlet", "neumann"), ("neumann", "neumann"))])
@pytest.mark.parametrize("form", ["float64", "float32", "numba"])
def test_cycle_is_symmetric_and_positive_whatever_the_walls(field, kinds, form, rows_alone):
    """Between closed walls on what has mean zero, which is all that it is given."""
    a = np.stack([4.0 ** min(rows_alone, 5) * field("4", 45, 1)[0], field("lognormal1", 45, 1)[0]])[None]
    a /= a.max()
    options = dict(kinds=kinds, rows_alone=rows_alone)
    inverse = numba_cycle(a, **options) if form == "numba" else torch_cycle(a, getattr(torch, form), **options)
    shape = [axis.size for axis in scheme.axes_of(Grid((45, 45)), kinds)]
    x, y = np.random.default_rng(1).standard_normal((2, *shape))
    if kinds == CLOSED:
        x, y = x - x.mean(), y - y.mean()
    Bx, By = inverse(x), inverse(y)
    assert (Bx * x).sum() > 0 and (By * y).sum() > 0
    asymmetry = abs((Bx * y).sum() - (By * x).sum()) / np.sqrt((Bx * x).sum() * (By * y).sum())
    assert asymmetry <= (1e-14 if form == "float64" else 1e-5)


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
@pytest.mark.parametrize("rows_alone", [0, 2])
@pytest.mark.parametrize("kinds", [scheme.DIRICHLET, CLOSED])
def test_both_forms_hold_the_same_hierarchy_and_cycle(shape, rows_alone, kinds):
    rng = np.random.default_rng(2)
    plain = rows_alone == 0 and kinds == scheme.DIRICHLET
    a = np.exp((1.0 if plain else 0.3) * rng.standard_normal((1, 2, *shape)))
    a[:, 0] *= 4.0**rows_alone
    faces = faces_of(a, kinds)
    hierarchy = mg.build(*faces, rows_alone=rows_alone, singular=kinds == CLOSED)
    size = faces[0].shape[1], faces[1].shape[2]
    x = rng.standard_normal(size)
    x -= x.mean()
    work, shapes, start = numba_level(faces, rows_alone)
    assert [tuple(s) for s in shapes] == [level.shape for level in hierarchy.levels]
    finest = arrays_of(work, shapes, start, 0)[0]
    for k, level in enumerate(hierarchy.levels):
        arrays = dict(zip(("d", "e", "s", "se", "sw"), arrays_of(work, shapes, start, k)))
        for name, flat in level.stencil.items():
            mine = arrays[name][1:-2, 1:-2]
            theirs = level.square(flat)[0, 1:-2, 1:-2].numpy()
            assert np.abs(mine - theirs).max() <= (2e-6 if plain else 1e-4) * np.abs(finest).max()
    mine, theirs = numba_cycle(a, kinds, rows_alone)(x), torch_cycle(a, torch.float32, kinds, rows_alone)(x)
    assert np.abs(mine - theirs).max() <= (1e-5 if plain else 1e-3) * np.abs(theirs).max()
    if len(hierarchy.levels) == 1:
        return
    mine = numba_cycle(a, kinds, rows_alone, "nested_start")(x)
    theirs = torch_cycle(a, torch.float32, kinds, rows_alone, mg.nested_start)(x)
    assert np.abs(mine - theirs).max() <= (1e-5 if plain else 1e-3) * np.abs(theirs).max()


@pytest.mark.parametrize("kind", ["4", "100", "lognormal1"])
@pytest.mark.parametrize("n", [65, 129, 257])
def test_a_cycle_from_the_first_guess_is_worth_more_than_two_from_zero(field, kind, n):
    """By ‖u − v‖_A, for the source 1."""
    a = field(kind, n, 1)
    faces = faces_of(a)
    b = np.full((n - 2, n - 2), 1.0 / (n - 1) ** 2)
    u = solve_directly(*faces, torch.from_numpy(b)[None])[0].numpy()
    inverse = torch_cycle(a, torch.float64)

    def applied(v: np.ndarray) -> np.ndarray:
        return scheme.apply(*faces, torch.from_numpy(v)[None])[0].numpy()

    def error(v: np.ndarray, cycles: int) -> float:
        for _ in range(cycles):
            v = v + inverse(b - applied(v))
        return float(np.sqrt(((u - v) * applied(u - v)).sum() / (u * applied(u)).sum()))

    guess = torch_cycle(a, torch.float64, call=mg.nested_start)(b)
    assert error(guess, 1) < error(np.zeros_like(u), 2) and error(guess, 0) < 0.25


def test_the_cache_on_disk_follows_every_file_that_is_compiled_in():
    """numba watches the cached function's own file alone; the checksum of the others is part of the key."""
    kernels = pytest.importorskip("sciops.pde.darcy.compiled.kernels")
    folder, found, todo = Path(kernels.__file__).parents[1], set(), ["compiled/kernels.py"]
    while todo:
        found.add(name := todo.pop())
        imports = [
            node for node in ast.walk(ast.parse((folder / name).read_text())) if isinstance(node, ast.ImportFrom)
        ]
        modules = {node.module for node in imports}
        modules |= {f"{node.module}.{alias.name}" for node in imports for alias in node.names}
        files = (module.removeprefix("sciops.pde.darcy.").replace(".", "/") + ".py" for module in modules)
        todo += [file for file in files if (folder / file).is_file() and file not in found | set(todo)]
    assert {"compiled/galerkin.py", "compiled/calls.py", "multigrid.py"} <= found
    assert {folder / name for name in found} <= set(kernels.sources())

    class Codegen:
        magic_tuple = staticmethod(tuple)

    def key(name, checksum):
        function = numba.njit(cache=True)(kernels.keyed(kernels.FUNCTIONS[name], checksum))
        return function._cache._index_key("signature", Codegen)

    numba = importlib.import_module("numba")
    assert key("relax", 1) == key("relax", 1) != key("relax", 2)
    assert key("iterate", 1) == key("iterate", 1) != key("iterate", 2)
    assert kernels.kernel("relax")._cache._index_key("signature", Codegen) == key("relax", kernels.sources_checksum())


def test_a_solve_compiles_the_kernels_of_its_own_form_alone():
    """Halving rows alone, and lines, are compiled when a sample needs them."""
    kernels = pytest.importorskip("sciops.pde.darcy.compiled.kernels")
    ways = Way(), Way(transposed=True), Way(rows_alone=2), Way(lines=True)
    points, turned, rows, lines = (set(kernels.form_of(way).names) for way in ways)
    assert points == turned < rows
    assert {name for name in rows - points if "rows" in name} == rows - points
    assert not any("line" in name or "rows" in name for name in points)
    assert not {"relax", "first_step"} & lines and {"relax_row_lines", "relax_column_lines"} <= lines
    assert rows | lines == set(kernels.LETTERS) == set(kernels.FUNCTIONS)


def test_a_kernel_called_with_what_it_does_not_take_is_refused_when_it_is_compiled():
    """By its address, anything would be taken for anything."""
    numba = pytest.importorskip("numba")
    calls = importlib.import_module("sciops.pde.darcy.compiled.calls")
    copy = calls.calling("copy")
    place = numba.types.CPointer

    def kernel(kernels, b, r):
        return copy(kernels, (b, r, 3))

    def of_float32(kernels, b, r):
        return copy(kernels, (b, r, 3, 3))

    for function, stored in ((kernel, numba.float64), (of_float32, numba.float32)):
        signature = numba.float64(place(numba.int64), place(stored), place(stored))
        with pytest.raises(numba.TypingError, match="copy takes"):
            numba.njit(signature)(function)
