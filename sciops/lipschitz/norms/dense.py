"""σ₁ of dense matrices, one or a batch: Gram iteration, eigenvalues of the Gram matrix or singular values."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from sciops.arrays.kinds import as_tensor
from sciops.lipschitz.norms.bracket import Bracket, outward
from sciops.lipschitz.norms.gram import (
    Precision,
    check_matrix,
    gram_bracket,
    power_of_two,
    product_loss,
    rayleigh,
    result_dtype,
    squares,
    sum_loss,
)

Method = Literal["auto", "gram", "eigvalsh", "svdvals"]

_ONE, _MANY, _LOOK = 64, 12, 200


def dense_norm(
    matrix: Any, *, method: Method = "auto", tolerance: float = 1e-3, precision: Precision = "double"
) -> Bracket:
    """The largest singular value of every matrix of a batch, as a certified bracket.

    σ₁ = max ‖Av‖/‖v‖.

    Parameters
    ----------
    matrix : array (..., m, n)
        numpy or torch, real or complex.
    method : str
        ``gram`` (`gram_bracket`: to `tolerance`, smooth in the matrix), ``eigvalsh`` (√λ₁(A*A)), ``svdvals`` (both to
        round-off, with subgradients where σ₁ is repeated), or ``auto`` (`chosen_method`).
    tolerance : float
        Relative width of the bracket at which ``gram`` stops.
    precision : str
        ``double`` computes in float64 whatever the dtype, ``input`` in that of the matrix with a wider bracket.

    Returns
    -------
    Bracket
        Ends of shape (...), of the same kind as `matrix`.

    Raises
    ------
    ValueError
        For an unknown method, an empty matrix or entries that are not finite.

    Notes
    -----
    The two direct methods are widened by the rounding of the products, as in `gram_bracket`, and by four times (m +
    n)·ε of σ₁ for LAPACK's backward-stable eigenvalues and singular values.
    """
    matrix, hand_back = as_tensor(matrix, "matrix")
    largest = check_matrix(matrix)
    if method not in ("auto", "gram", "eigvalsh", "svdvals"):
        raise ValueError(f"method={method!r}: expected 'auto', 'gram', 'eigvalsh' or 'svdvals'")
    name = chosen_method(matrix) if method == "auto" else method
    if name == "gram":
        bracket = gram_bracket(matrix, tolerance=tolerance, precision=precision)
    else:
        bracket = _direct(matrix, largest, name, precision, tolerance if method == "auto" else None)
    return Bracket(hand_back(bracket.lower), hand_back(bracket.upper))


def chosen_method(matrix: Tensor) -> str:
    """The method that ``auto`` uses for a matrix or batch, by device, size and count.

    The limits were measured by ``studies.spectral_norms``.

    * CUDA: ``gram``, which uses matrix products alone
    * CPU, shorter side at most 64 for one matrix, at most 12 in a batch: ``svdvals``, which needs the fewest calls
    * CPU otherwise: ``eigvalsh``, one product and an eigenvalue problem of the shorter side. From 200 on the product is
      tried first: where it brings the Schatten-4 norm within the tolerance, the eigenvalue problem is not solved.
    """
    if matrix.device.type != "cpu":
        return "gram"
    most = _ONE if matrix.shape[:-2].numel() == 1 else _MANY
    return "svdvals" if min(matrix.shape[-2:]) <= most else "eigvalsh"


def _direct(matrix: Tensor, largest: Tensor, method: str, precision: Precision, tolerance: float | None) -> Bracket:
    tall = matrix if matrix.shape[-2] >= matrix.shape[-1] else matrix.mH
    if precision == "double" or tall.dtype.itemsize < 4:
        tall = tall.to(torch.complex128 if tall.is_complex() else torch.float64)
    real = tall.real.dtype
    most = 2.0 ** (200 if real is torch.float64 else 30)  # squares of such entries neither overflow nor vanish
    scale = None
    if not bool(((largest > 1 / most) & (largest < most)).all()):
        scale = power_of_two(tall)
        tall = tall / scale.to(real)[..., None, None]
    low, high = _by_singular_values(tall) if method == "svdvals" else _by_eigenvalues(tall, tolerance)
    if scale is not None:
        low, high = low * scale, high * scale
    return outward(low, high, result_dtype(matrix))


def _by_singular_values(tall: Tensor) -> tuple[Tensor, Tensor]:
    loss = _solver_loss(tall)
    largest = torch.linalg.svdvals(tall)[..., 0].double()
    return largest.detach() * (1 - loss), largest * (1 + loss)


def _by_eigenvalues(tall: Tensor, tolerance: float | None) -> tuple[Tensor, Tensor]:
    """√λ₁ of the Gram matrix; with a tolerance its Frobenius norm where that is as good."""
    gram = tall.mH @ tall
    trace = gram.detach().diagonal(dim1=-2, dim2=-1).real.double().sum(-1)
    loss = product_loss(tall.shape[-2], tall) * trace
    if tolerance is not None and tall.shape[-1] >= _LOOK:
        fourth = squares(gram)
        low = rayleigh(tall, gram)
        high = (fourth.detach().sqrt() * (1 + sum_loss(gram)) + loss).sqrt()
        if bool((high <= (1 + tolerance) * low).all()):
            return low, _root(_root(fourth, fourth.detach().sqrt()), high)
    value = torch.linalg.eigvalsh(gram)[..., -1].double()
    solver = _solver_loss(tall)
    certain = value.detach().clamp_min(0)
    low = (certain * (1 - solver) - loss).clamp_min(0).sqrt()
    return low, _root(value, (certain * (1 + solver) + loss).sqrt())


def _root(square: Tensor, value: Tensor) -> Tensor:
    """`value`, with the gradient of √square scaled to it; 0 without a gradient where there is nothing."""
    present = square.detach() > 0
    root = torch.where(present, square, 1).sqrt()
    return torch.where(present, root * (value / root.detach()), value)


def _solver_loss(tall: Tensor) -> float:
    """Relative to σ₁: LAPACK's solvers are backward stable with a modest factor of the dimensions."""
    real = tall.real.dtype
    return 4 * (tall.shape[-2] + tall.shape[-1]) * torch.finfo(real).eps
