"""σ₁ of dense matrices, one or a batch: Gram iteration, eigenvalues of the Gram matrix or singular values."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from sciops._arrays import as_tensor
from sciops.lipschitz.bracket import Bracket, outward
from sciops.lipschitz.gram import Precision, check_matrix, gram_bracket, power_of_two, product_loss, result_dtype

Method = Literal["auto", "gram", "eigvalsh", "svdvals"]
METHODS = ("gram", "eigvalsh", "svdvals")


def dense_norm(
    matrix: Any, *, method: Method = "auto", tolerance: float = 1e-3, precision: Precision = "double"
) -> Bracket:
    """σ₁ = max ‖Av‖/‖v‖ of every matrix of a batch, in a bracket that holds it.

    matrix : (..., m, n), numpy or torch, real or complex → bracket of (...), the same kind
    method : ``gram`` (`gram_bracket`: to `tolerance`, smooth in the matrix), ``eigvalsh`` (√λ₁(A*A)) and ``svdvals``
        (to round-off; subgradients where σ₁ is repeated), ``auto`` by `chosen_method`
    precision : ``double`` computes in float64 whatever the dtype, ``input`` in that of the matrix with a wider bracket

    The two direct methods are widened by the rounding of the products, as `gram_bracket` is, and by four times
    (m + n)·ε of σ₁ for LAPACK's backward-stable eigenvalues and singular values.

    Raises ValueError for an unknown method, an empty matrix or entries that are not finite.
    """
    matrix, hand_back = as_tensor(matrix, "matrix")
    check_matrix(matrix)
    if method == "auto":
        method = chosen_method(matrix, tolerance)
    if method == "gram":
        bracket = gram_bracket(matrix, tolerance=tolerance, precision=precision)
    elif method in METHODS:
        bracket = _direct(matrix, method, precision)
    else:
        raise ValueError(f"method={method!r}: expected 'auto', 'gram', 'eigvalsh' or 'svdvals'")
    return Bracket(hand_back(bracket.lower), hand_back(bracket.upper))


def chosen_method(matrix: Tensor, tolerance: float = 1e-3) -> str:
    return "eigvalsh"


def _direct(matrix: Tensor, method: str, precision: Precision) -> Bracket:
    tall = matrix if matrix.shape[-2] >= matrix.shape[-1] else matrix.mH
    if precision == "double" or tall.dtype.itemsize < 4:
        tall = tall.to(torch.complex128 if tall.is_complex() else torch.float64)
    scale = power_of_two(tall)
    tall = tall / scale.to(tall.real.dtype if tall.is_complex() else tall.dtype)[..., None, None]
    rows, columns = tall.shape[-2:]
    epsilon = torch.finfo(tall.real.dtype if tall.is_complex() else tall.dtype).eps
    solver = 4 * (rows + columns) * epsilon
    if method == "svdvals":
        largest = torch.linalg.svdvals(tall)[..., 0].double()
        low, high = largest.detach() * (1 - solver), largest * (1 + solver)
    else:
        gram = tall.mH @ tall
        value = torch.linalg.eigvalsh(gram)[..., -1].double()
        trace = gram.detach().diagonal(dim1=-2, dim2=-1).real.double().sum(-1)
        loss = product_loss(rows, tall) * trace * (1 + rows * epsilon)
        present = trace > 0
        certain = torch.where(present, value, 1).clamp_min(1e-300)
        excess = (value.detach() * (1 + solver) + loss).clamp_min(0).sqrt()
        root = certain.sqrt()
        high = torch.where(present, root * (excess / root.detach()), 0)
        low = (value.detach() * (1 - solver) - loss).clamp_min(0).sqrt()
    edge = 4 * torch.finfo(torch.float64).eps
    return outward(low * scale * (1 - edge), high * scale * (1 + edge), result_dtype(matrix))
