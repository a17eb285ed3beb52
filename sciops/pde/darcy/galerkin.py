"""The Galerkin product PᵀAP of a nine-point stencil as a list of products: evaluated in torch, written out for numba.

A level stores the symmetric operator (Au)_P = d u_P − Σ c_PQ u_Q as five arrays: the diagonal d and the couplings
to the east e, south s, south-east se and south-west sw of P (rows run south, columns east); the other four are the
same numbers seen from the neighbour. Coarse point I sits on fine point 2I, and P_δ[I] is the weight with which it is
interpolated to fine point 2I + δ, δ ∈ {−1, 0, 1}². Then

    A_c(I, I+Δ) = Σ_{δ, δ'} P_δ[I] · A(2I+δ, 2I+δ + o) · P_δ'[I+Δ],   o = 2Δ + δ' − δ ∈ {−1, 0, 1}²,

which is closed in nine points. Where couplings down the columns are much the stronger, rows alone are halved: coarse
point (I, J) sits on fine point (2I, J), δ ∈ {−1, 0, 1} × {0}, and o = (2ΔI + δ' − δ, ΔJ). Interpolation follows
black-box multigrid (Dendy, J. Comput. Phys. 48, 1982): the weight solves the stencil collapsed onto the line or the
corner it interpolates along.
"""

from __future__ import annotations

from itertools import product

Offset = tuple[int, int]

# Where the coupling of point p in a direction is stored: array, and the shift of the point that holds it.
COUPLING: dict[Offset, tuple[str, Offset]] = {
    (0, 0): ("d", (0, 0)),
    (0, 1): ("e", (0, 0)),
    (0, -1): ("e", (0, -1)),
    (1, 0): ("s", (0, 0)),
    (-1, 0): ("s", (-1, 0)),
    (1, 1): ("se", (0, 0)),
    (-1, -1): ("se", (-1, -1)),
    (1, -1): ("sw", (0, 0)),
    (-1, 1): ("sw", (-1, 1)),
}
STORED: dict[str, Offset] = {"d": (0, 0), "e": (0, 1), "s": (1, 0), "se": (1, 1), "sw": (1, -1)}
BOTH, ROWS = (2, 2), (2, 1)  # the two coarsenings, as fine points per coarse point on each axis


def interpolated(steps: Offset) -> list[Offset]:
    """The δ whose points are interpolated to, in the order in which their weights are stored."""
    return [delta for delta in _offsets(steps) if delta != (0, 0)]


def _offsets(steps: Offset) -> list[Offset]:
    along_x, along_y = ((-1, 0, 1) if step == 2 else (0,) for step in steps)
    return [(i, j) for i in along_x for j in along_y]


def galerkin_products(nine: bool, steps: Offset = BOTH) -> dict[str, dict[Offset, list[tuple[Offset, Offset, float]]]]:
    """stored array → δ → [(o, δ', factor), …]: the products of the sum above.

    On the diagonal (δ, δ') and (δ', δ) are the same product, listed once with factor 2.
    """
    table: dict[str, dict[Offset, list[tuple[Offset, Offset, float]]]] = {}
    for name, shift in STORED.items():
        table[name] = {}
        for delta, other in product(_offsets(steps), repeat=2):
            o = steps[0] * shift[0] + other[0] - delta[0], steps[1] * shift[1] + other[1] - delta[1]
            mirrored = name == "d" and other < delta
            if max(map(abs, o)) <= (1 if nine or 0 in o else 0) and not mirrored:
                factor = 2.0 if name == "d" and other != delta else 1.0
                table[name].setdefault(delta, []).append((o, other, factor))
    return table
