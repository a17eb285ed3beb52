"""Every kernel of the reverse scan against sums over dense products, in float64, with its masks and derivatives."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from sciops.models.sequences.through_time import scan
from sciops.models.sequences.through_time.scan import Diagonal, FourierDiagonal, Matrix, reverse_scan

T, B, N, C = 7, 3, 5, 4
SHAPE = (T, B, N, C)


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def fourier(axes: tuple[int, ...], *lead: int, seed: int = 3) -> FourierDiagonal:
    shape = [1, 1, 1]
    for axis in axes:
        shape[axis] = SHAPE[axis]
    shape[axes[-1]] = SHAPE[axes[-1]] // 2 + 1
    return FourierDiagonal(draw(*lead, *shape, seed=seed, dtype=torch.complex128) / 2, axes)


STATIONARY = {
    "number": -0.7,
    "one": 1,
    "zero": 0.0,
    "diagonal": Diagonal(draw(C, seed=1) / 2),
    "diagonal of points": Diagonal(draw(N, 1, seed=1) / 2),
    "matrix": Matrix(draw(C, C, seed=2) / 3),
    "matrix of points": Matrix(draw(N, C, C, seed=2) / 3),
    "fourier": fourier((-2,)),
    "fourier of two axes": fourier((-3, -2)),
}
VARYING = {
    "diagonals": Diagonal(draw(*SHAPE, seed=1)),
    "diagonals of channels": Diagonal(draw(T, 1, 1, C, seed=1)),
    "matrices": Matrix(draw(T, 1, 1, C, C, seed=2)),
    "matrices of points": Matrix(draw(T, B, N, C, C, seed=2)),
    "fouriers": fourier((-2,), T),
}
ALL = STATIONARY | VARYING


def dense(coefficient, i: int, shape=SHAPE, dtype=torch.float64) -> Tensor:
    """K_i as a matrix on one flattened state, from its definition applied to every unit vector."""
    state = shape[1:]
    units = torch.eye(int(torch.tensor(state).prod()), dtype=dtype).reshape(-1, *state)
    if isinstance(coefficient, Diagonal):
        values = coefficient.values[i] if coefficient.values.ndim == len(shape) else coefficient.values
        images = units * values
    elif isinstance(coefficient, Matrix):
        values = coefficient.values[i] if coefficient.values.ndim == len(shape) + 1 else coefficient.values
        images = torch.einsum("...ij,n...j->n...i", values.expand(*state, state[-1]), units)
    elif isinstance(coefficient, FourierDiagonal):
        symbol = coefficient.symbol[i] if coefficient.symbol.ndim == len(shape) else coefficient.symbol
        sizes = [shape[axis] for axis in coefficient.axes]
        if dtype.is_complex:
            images = torch.fft.ifftn(symbol * torch.fft.fftn(units, dim=coefficient.axes), dim=coefficient.axes)
        else:
            spectrum = symbol * torch.fft.rfftn(units, dim=coefficient.axes)
            images = torch.fft.irfftn(spectrum, s=sizes, dim=coefficient.axes)
    else:
        images = coefficient * units
    return images.flatten(1).T


def reference(v: Tensor, coefficient, mask: Tensor | None = None) -> Tensor:
    """u_i = Σ_{j≥i} K_{i+1}ᴴ ⋯ K_jᴴ v_j, every product on its own; a masked step has K = 0 and v = 0."""
    matrices = [dense(coefficient, i, v.shape, v.dtype).to(v.dtype) for i in range(len(v))]
    flat = v.flatten(1)
    if mask is not None:
        there = mask.reshape(*mask.shape, *(1,) * (v.ndim - 2)).expand_as(v).flatten(1).to(v.dtype)
        flat, matrices = flat * there, [there[i].unsqueeze(1) * m for i, m in enumerate(matrices)]
    rows = []
    for i in range(len(v)):
        total = torch.zeros_like(flat[0])
        for j in range(i, len(v)):
            term = flat[j]
            for m in range(j, i, -1):
                term = matrices[m].mH @ term
            total = total + term
        rows.append(total)
    u = torch.stack(rows).reshape(v.shape)
    return u if mask is None else u * there.reshape(v.shape)


def kernels(name: str) -> list[str]:
    found = ["auto", "loop", "associative"]
    return found + ["fft"] * (name in STATIONARY) + ["cumsum"] * (name == "one")


@pytest.mark.parametrize("name", ALL)
def test_every_kernel_is_the_sum_over_products(name):
    v = draw(*SHAPE)
    expected = reference(v, ALL[name])
    for kernel in kernels(name):
        torch.testing.assert_close(reverse_scan(v, ALL[name], kernel=kernel), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", [name for name in ALL if name != "fourier of two axes"])
@pytest.mark.parametrize("gaps", [False, True])
def test_steps_that_do_not_exist_carry_nothing(name, gaps):
    mask = torch.arange(T)[:, None] < torch.tensor([T, 3, 1])
    if gaps:
        mask[2, 0] = mask[0, 1] = False
    v = draw(*SHAPE)
    expected = reference(v, ALL[name], mask)
    for kernel in kernels(name):
        if gaps and kernel in ("fft", "cumsum"):
            with pytest.raises(ValueError, match="kernel='"):
                reverse_scan(v, ALL[name], mask=mask, kernel=kernel)
            continue
        u = reverse_scan(v, ALL[name], mask=mask, kernel=kernel)
        torch.testing.assert_close(u, expected, rtol=1e-11, atol=1e-11)
    alone = reverse_scan(v[:3, 1:2], 0.5)
    torch.testing.assert_close(
        reverse_scan(v, 0.5, mask=mask)[:3, 1:2], alone if not gaps else alone * mask[:3, 1:2, None, None]
    )


def test_complex_states_take_the_adjoint():
    v = draw(*SHAPE, dtype=torch.complex128)
    for coefficient in (
        0.3 + 0.6j,
        Diagonal(draw(C, seed=1, dtype=torch.complex128) / 2),
        Matrix(draw(C, C, seed=2, dtype=torch.complex128) / 3),
        FourierDiagonal(draw(N, 1, seed=2, dtype=torch.complex128) / 2, (-2,)),
    ):
        expected = reference(v, coefficient)
        for kernel in ("loop", "fft", "associative"):
            u = reverse_scan(v, coefficient, kernel=kernel)
            torch.testing.assert_close(u, expected, rtol=1e-11, atol=1e-11)


def test_the_scan_is_what_backpropagation_through_the_chain_gives():
    v, a = draw(*SHAPE), draw(T, B, N, C, C, seed=2) / 2
    h = [torch.zeros(B, N, C, dtype=v.dtype, requires_grad=True)]
    for i in range(1, T):
        h.append(torch.einsum("bnij,bnj->bni", a[i], h[-1]))
    gradients = torch.autograd.grad(sum((x * g).sum() for x, g in zip(h, v)), h)
    torch.testing.assert_close(reverse_scan(v, Matrix(a)), torch.stack(gradients), rtol=1e-12, atol=1e-12)


def test_without_associative_scan_doubling_gives_the_same(monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "torch._higher_order_ops":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    v = draw(*SHAPE)
    expected = {name: reference(v, ALL[name]) for name in ALL}
    monkeypatch.setattr(builtins, "__import__", without)
    called = []
    monkeypatch.setattr(scan, "_doubling", lambda *a, _f=scan._doubling: called.append(1) or _f(*a))
    for name in ALL:
        u = reverse_scan(v, ALL[name], kernel="associative")
        torch.testing.assert_close(u, expected[name], rtol=1e-11, atol=1e-11)
    assert len(called) == len(ALL)


@pytest.mark.parametrize("kernel", ["loop", "fft", "associative"])
def test_derivatives(kernel):
    v = draw(5, 2, 3).requires_grad_()
    for coefficient, values in ((Diagonal, draw(3, seed=1)), (Matrix, draw(3, 3, seed=2))):
        values = (values / 2).requires_grad_()
        assert torch.autograd.gradcheck(lambda v, a, of=coefficient: reverse_scan(v, of(a), kernel=kernel), (v, values))


def test_dtypes_short_chains_and_the_input_left_alone():
    v = draw(9, 2, 3)
    before = v.clone()
    for kernel in ("loop", "fft", "associative", "cumsum"):
        assert reverse_scan(v.float(), 1, kernel=kernel).dtype == torch.float32
        half = reverse_scan(v.bfloat16(), 1, kernel=kernel)
        assert half.dtype == torch.bfloat16
        # summed in float32 and rounded once
        torch.testing.assert_close(half, reference(v.bfloat16().double(), 1).bfloat16(), rtol=2**-7, atol=1e-2)
        assert torch.equal(reverse_scan(v[:1], 1, kernel=kernel), v[:1])
        assert reverse_scan(v[:0], 1, kernel=kernel).shape == (0, 2, 3)
    assert torch.equal(v, before)
    assert torch.equal(reverse_scan(v, 0.0, kernel="loop"), v)


def test_long_sums_keep_their_digits():
    """2000 steps with coefficients up to 1: transforms of a kernel that does not decay are as good as the loop."""
    v, a = draw(2000, 6), Diagonal(torch.linspace(0, 1, 6, dtype=torch.float64))
    expected = reverse_scan(v, a, kernel="loop")
    for kernel in ("fft", "associative", "auto"):
        torch.testing.assert_close(reverse_scan(v, a, kernel=kernel), expected, rtol=0, atol=1e-11)
    small, scale = v.float(), expected.abs().max().item()
    for kernel in ("loop", "fft", "associative"):
        wrong = (reverse_scan(small, Diagonal(a.values.float()), kernel=kernel) - expected).abs().max()
        assert wrong < 1e-5 * scale


def test_the_automatic_choice_is_one_that_exists():
    for steps, width, name in itertools.product((1, 2, 300, 4200), (1, 40), ("one", "number", "diagonal", "varying")):
        v = draw(steps, width)
        coefficient = {"one": 1, "number": 0.5, "diagonal": Diagonal(draw(width) / 4)}.get(name)
        coefficient = Diagonal(draw(steps, width).tanh()) if coefficient is None else coefficient
        torch.testing.assert_close(reverse_scan(v, coefficient), reverse_scan(v, coefficient, kernel="loop"))


def test_coefficients_that_grow_keep_the_digits_of_small_entries():
    v = draw(300, 2)
    expected = reverse_scan(v, 1.2, kernel="loop")
    assert (expected[0].abs() > 1e18).all() and (expected[-1].abs() < 10).all()
    torch.testing.assert_close(reverse_scan(v, 1.2), expected, rtol=1e-12, atol=1e-12)


def test_refusals():
    v = draw(*SHAPE)
    for coefficient, kernel, match in (
        (Diagonal(draw(3)), "auto", r"Diagonal values of shape \(3,\)"),
        (Diagonal(draw(T + 1, B, N, C)), "auto", "one for each step"),
        (Matrix(draw(3, 3)), "auto", "Matrix values"),
        (Matrix(draw(C)), "auto", "Matrix values"),
        (0.5, "cumsum", "expected coefficient 1"),
        (VARYING["diagonals"], "fft", "one coefficient for all steps"),
        (1, "scan", "kernel='scan': expected one of"),
        (FourierDiagonal(draw(N, 1), (-2,)), "auto", r"expected \(3,\) frequencies"),
        (FourierDiagonal(draw(N, 1), (-4,)), "auto", "counted from the end"),
    ):
        with pytest.raises(ValueError, match=match):
            reverse_scan(v, coefficient, kernel=kernel)
    with pytest.raises(ValueError, match="is the batch"):
        reverse_scan(v, ALL["fourier of two axes"], mask=torch.ones(T, B, dtype=torch.bool))
    with pytest.raises(ValueError, match="expected booleans"):
        reverse_scan(v, 1, mask=torch.ones(T, B))
    with pytest.raises(ValueError, match="expected booleans"):
        reverse_scan(v, 1, mask=torch.ones(T, B + 1, dtype=torch.bool))
    with pytest.raises(ValueError, match="real or complex"):
        reverse_scan(torch.ones(3, 2, dtype=torch.long), 1)
