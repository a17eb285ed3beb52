"""Operators that ONNX lacks, expressed by those it has; complex values that depend only on parameters, as constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

_NEWTON_STEPS = 24  # serves condition numbers up to about 10³ in float32


def triangular_solve(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """A⁻¹B, or BA⁻¹ where not `left`, with the inverse of ever larger blocks on the diagonal of A.

    With X the inverse of the diagonal blocks of s rows and C what lies between two of them,
    [[P, 0], [C, Q]]⁻¹ = [[P⁻¹, 0], [−Q⁻¹CP⁻¹, Q⁻¹]], all pairs at once: X − XCX, ⌈log₂ n⌉ times.
    """
    if upper:
        A = A.mT
    n = A.shape[-1]
    if unitriangular:
        X = torch.eye(n, dtype=A.dtype, device=A.device).expand_as(A)
    else:
        X = torch.diag_embed(1 / A.diagonal(dim1=-2, dim2=-1))
    size, at = 1, torch.arange(n, device=A.device)
    while size < n:
        block = at // size
        between = (block[:, None] == block + 1) & (block % 2 == 0)
        X = X - X @ (A * between) @ X
        size *= 2
    X = X.mT if upper else X
    return X @ B if left else B @ X


def inverse(A: Tensor) -> Tensor:
    """A⁻¹ by Newton's iteration X ← X(2I − AX) from Aᵀ/(‖A‖₁‖A‖∞), which converges for every regular A."""
    size = A.abs()
    X = A.mT / (size.sum(-1).amax(-1) * size.sum(-2).amax(-1))[..., None, None]
    twice = 2 * torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    for _ in range(_NEWTON_STEPS):
        X = X @ (twice - A @ X)
    return X


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """A⁻¹B, or BA⁻¹ where not `left`; B may be a vector, or one for each matrix of a batch."""
    if B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1]):
        return (inverse(A) @ B.unsqueeze(-1)).squeeze(-1)
    return inverse(A) @ B if left else B @ inverse(A)


_PLAIN = torch.contiguous_format


def _view(x: Tensor, size: Any) -> Any:
    # attention written out has other strides than the kernel that the program was traced with
    return NotImplemented if x.is_contiguous() else torch.ops.aten.view.default(x.clone(memory_format=_PLAIN), size)


def replacements() -> dict[Any, Callable]:
    """For `torch.export.ExportedProgram.run_decompositions`."""
    aten = torch.ops.aten
    return {
        aten.linalg_solve_triangular.default: triangular_solve,
        aten.linalg_inv.default: inverse,
        aten.linalg_solve.default: solve,
        aten.view.default: _view,
    }


def with_complex_constants(program: Any) -> nn.Module:
    """The program as a module in which complex numbers that do not depend on the inputs are computed once.

    ONNX has products of complex numbers and Fourier transforms, but no exponentials, comparisons or powers of them:
    those of state-space kernels depend on parameters alone.
    """
    module = program.module()
    known: dict[Any, Tensor] = {}
    of_complex = set()
    for node in module.graph.nodes:
        value = None
        if node.op == "get_attr":
            value = _attribute(module, node.target)
        elif node.op == "call_function" and _repeatable(node.target) and all(n in known for n in node.all_input_nodes):
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
            value = node.target(*args, **kwargs)
        if isinstance(value, Tensor):
            known[node] = value.detach()
            if value.is_complex() or any(n in of_complex for n in node.all_input_nodes):
                of_complex.add(node)
    for number, node in enumerate(n for n in known if n in of_complex and n.op == "call_function"):
        outside = [user for user in node.users if user not in known]
        if outside:
            name = f"_constant_{number}"
            module.register_buffer(name, known[node].contiguous())
            with module.graph.inserting_before(node):
                constant = module.graph.get_attr(name)
            for user in outside:
                user.replace_input_with(node, constant)
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


def _attribute(module: nn.Module, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part)
    return module


def _repeatable(operator: Any) -> bool:
    return isinstance(operator, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded not in operator.tags
