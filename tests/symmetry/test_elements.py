"""Exchanges and mirror images of axes: a group, matrices of determinant ±1, and what they do to vectors and tensors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from sciops.grids import Grid
from sciops.symmetry import Element, Symmetry, elements_of


def matrix(element: Element) -> np.ndarray:
    m = np.zeros((len(element.axes),) * 2)
    m[range(len(element.axes)), element.axes] = element.signs
    return m


@pytest.mark.parametrize(("ndim", "count"), [(1, 2), (2, 8), (3, 48)])
def test_the_elements_are_the_signed_permutation_matrices(ndim, count):
    elements = elements_of("square", ndim)
    matrices = {matrix(e).tobytes() for e in elements}
    assert len(matrices) == count and elements[0].is_identity and not any(e.is_identity for e in elements[1:])
    for e in elements:
        m = matrix(e)
        assert e.determinant == round(np.linalg.det(m))
        np.testing.assert_array_equal(matrix(e.inverse), m.T)
    for one, other in itertools.islice(itertools.product(elements, repeat=2), 200):
        assert (matrix(one) @ matrix(other) + 0.0).tobytes() in matrices


@pytest.mark.parametrize("centering", ["node", "cell", "periodic"])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_a_moved_vector_field_is_the_moved_function(ndim, centering):
    """(g v)(x) = M v(M⁻¹x), with M⁻¹x mirrored about the middle of the box; of a tensor M T Mᵀ; of a curl det M · c."""
    # the middle of the box at 0: there g is the matrix alone, also on periodic grids, where 0 ≡ a period
    grid = Grid((5,) * ndim, (-0.5, 0.5), centering) if centering != "periodic" else Grid((6,) * ndim, 1.0, centering)
    x = np.stack(grid.meshgrid())
    rng = np.random.default_rng(ndim)
    waves = 2 * np.pi * rng.integers(-2, 3, (ndim + ndim**2 + 1, ndim))

    def values(points, rows):
        return np.stack([np.sin(np.tensordot(waves[r], points, 1) + r) for r in rows])

    letters = "xyz"[:ndim]
    vector = tuple(f"v:{a}" for a in letters)
    tensor = tuple(f"t:{a}{b}" for a in letters for b in letters)
    symmetry = Symmetry((*vector, *tensor, "pseudoscalar", "fixed"), ("scalar",))
    rows = (range(ndim), range(ndim, ndim + ndim**2), [ndim + ndim**2])
    fields = torch.from_numpy(np.concatenate([*(values(x, r) for r in rows), x[:1]]))[None]
    for element in symmetry.elements(grid, "square"):
        m = matrix(element)
        back = np.tensordot(m.T, x, 1)
        v, t, w = (values(back, r) for r in rows)
        t = t.reshape(ndim, ndim, *grid.shape)
        expected = [np.tensordot(m, v, 1), np.einsum("ik,kl...,jl->ij...", m, t, m).reshape(-1, *grid.shape)]
        expected = np.concatenate([*expected, element.determinant * w, x[:1]])
        found = symmetry.move(fields, element, grid)[0].numpy()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        returned = symmetry.move(symmetry.move(fields, element, grid), element.inverse, grid)
        assert torch.equal(returned, fields)


def reason(symmetry: Symmetry, text: str, grid: Grid | None = None) -> str | None:
    grid = grid or Grid((5, 5))
    (element,) = [e for e in elements_of("square", grid.ndim) if str(e) == text]
    return symmetry.reason(element, grid)


def test_reasons_name_the_wall_the_channel_the_constant_or_the_grid():
    swap, mirror = "(x, y) → (y, x)", "(x, y) → (−x, y)"
    cell = Symmetry(("scalar",), ("scalar",), {"x": ("u = 1", "u = 0"), "y": ("no flux", "no flux")})
    assert "the high x side (u = 0) would be the low x side (u = 1)" in reason(cell, mirror)
    assert "no flux" in reason(cell, swap) and reason(cell, "(x, y) → (x, −y)") is None
    lonely = Symmetry(("K:yy",), ("scalar",))
    assert "'K:yy' would be K:xx, which is not among the channels" in reason(lonely, swap)
    assert reason(lonely, mirror) is None
    assert "what becomes of channel 'q'" in reason(Symmetry(("unknown:q",), ("scalar",)), mirror)
    heavy = Symmetry(("scalar",), ("scalar",), vectors={"gravity": (0, -1)})
    assert "gravity = (0, -1) would be (-1, 0)" in reason(heavy, swap) and reason(heavy, mirror) is None
    free = Symmetry.of_scalars()
    oblong = Grid((5, 7))
    assert "not the same on both axes" in reason(free, swap, oblong) and reason(free, mirror, oblong) is None
    assert (
        reason(free, swap, Grid((5, 5), ((0, 1), (0, 2))))
        and reason(free, mirror, Grid((5, 5), ((0, 1), (0, 2)))) is None
    )
    short = Grid((16, 16), (0, 390 / 420), domain=(0, 1))
    assert "lie unevenly between the walls" in reason(free, mirror, short) and reason(free, swap, short) is None
    assert reason(Symmetry((), (), unknown="told so"), mirror) == "told so"
    # values along a side run backwards in a mirror image of the other axis
    ramp = Symmetry(("scalar",), ("scalar",), {"x": (("u", (0, 1, 2)), ("u", (0, 1, 2)))})
    bump = Symmetry(("scalar",), ("scalar",), {"x": (("u", (0, 1, 0)), ("u", (0, 1, 0)))})
    assert reason(ramp, mirror) is None and reason(ramp, "(x, y) → (x, −y)") and reason(ramp, "(x, y) → (−x, −y)")
    assert reason(bump, "(x, y) → (x, −y)") is None


def test_groups_are_refused_or_reduced_by_name():
    cell = Symmetry(("scalar",), ("scalar",), {"x": ("u = 1", "u = 0"), "y": ("no flux",) * 2})
    grid = Grid((5, 5))
    with pytest.raises(ValueError, match=r"group='square'.*not a symmetry here.*pass group='allowed' .*\(x, −y\)$"):
        cell.elements(grid, "square")
    assert [str(e) for e in cell.elements(grid, "allowed")][1:] == ["(x, y) → (x, −y)"]
    with pytest.raises(ValueError, match="it has none but the identity: pass augment='none'"):
        Symmetry(("scalar",), ("scalar",), {"x": (0, 1)}).elements(Grid((5,)), "allowed", name="augment")
    with pytest.raises(ValueError, match="is not the kind of a channel: expected 'scalar'"):
        Symmetry(("vector",), ("scalar",))
    with pytest.raises(ValueError, match="repeat a component"):
        Symmetry(("v:x", "v:x"), ("scalar",))
    with pytest.raises(ValueError, match="expected one kind for each channel"):
        Symmetry("scalar", ("scalar",))
    with pytest.raises(ValueError, match="expected axis → "):
        Symmetry(("scalar",), ("scalar",), {"w": (0, 1)})
    both = cell.joined(Symmetry(("scalar",), ("scalar",)))
    assert "differ between the parts" in both.unknown
    assert Symmetry(**cell.to_dict()) == cell
    with pytest.raises(ValueError, match="the fields have 2 channels, the symmetry states 1 inputs"):
        cell.move(torch.zeros(1, 2, 5, 5), cell.elements(grid)[1], grid)
