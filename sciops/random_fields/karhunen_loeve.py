"""The Karhunen–Loève sum of a Gaussian field as a linear map from coefficients to the points of a grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from sciops import bases
from sciops.arrays.compiling import kept
from sciops.arrays.kinds import as_tensor, refuse_complex
from sciops.arrays.threads import one_torch_thread
from sciops.bases import KIND_OF
from sciops.grids import Grid
from sciops.values import check_whole


class KarhunenLoeve:
    """The linear map Φ from coefficients to the points of a grid, g(x) = Σ_k s_k ξ_k φ_k(x) = (Φξ)(x).

    `gaussian_random_field` draws samples of this sum. For inference with a Gaussian prior: ξ is white, −log p(ξ) =
    |ξ|²/2 up to a constant, Φ carries it to the field, Φᵀ carries gradients back, and ΦΦᵀ is the covariance of the
    field at the points.

    Parameters
    ----------
    grid, tau, alpha, modes, boundary, normalize
        As in `gaussian_random_field`, which also gives s_k and φ_k.

    Attributes
    ----------
    grid : Grid
    shape : tuple of int
        Of the coefficients, (modes,) * d.
    scale : ndarray
        s_k Π √(w_{k_i}/L_i), `shape`: the standard deviations of the factors of plain products of cosines, or of 1,
        cos, sin, …; 0 for the constant.

    Raises
    ------
    ValueError
        As `gaussian_random_field`; in the methods also for another shape than they say.

    Examples
    --------
    >>> import numpy as np
    >>> from sciops import Grid
    >>> prior = KarhunenLoeve(Grid((43, 43)), tau=3.0, alpha=2.0, modes=16)
    >>> xi = np.random.default_rng(0).standard_normal(prior.shape)
    >>> g = prior.field(xi)
    >>> bool(np.isclose((g * g).sum(), (xi * prior.transpose(g)).sum()))
    True
    """

    def __init__(
        self,
        grid: Grid,
        *,
        tau: float,
        alpha: float,
        modes: int = 192,
        boundary: Literal["neumann", "periodic"] | None = None,
        normalize: bool = False,
    ) -> None:
        _check(grid, tau, alpha, modes, boundary)
        boundary = boundary or ("periodic" if grid.centering == "periodic" else "neumann")
        lengths = tuple(right - left for left, right in grid.domain)
        self.grid, self.shape = grid, (modes,) * grid.ndim
        self.scale = _scale(lengths, tau, alpha, modes, boundary, normalize)
        self._scale = torch.tensor(self.scale)
        self._functions = _functions(grid, modes, boundary)

    def __repr__(self) -> str:
        return f"KarhunenLoeve({self.shape} coefficients → {self.grid})"

    def field(self, xi: Any) -> Any:
        """Φξ.

        Parameters
        ----------
        xi : array
            (…, *shape), numpy or torch, on any device; torch differentiates through it.

        Returns
        -------
        array
            (…, *grid.shape), same kind, dtype and device. A field has the same bits in any batch.
        """
        x, restore = _taken(xi, self.shape, "coefficients")
        scale = self._scale.to(x)
        # products may round by memory alignment, which torch fixes for what it allocates, such as one * scale
        return restore(_one_by_one(lambda one: _along_axes(one * scale, self._functions), x, self.grid.shape))

    def transpose(self, g: Any) -> Any:
        """Φᵀg, (…, *shape) of fields (…, *grid.shape): Σ_x Σ_k g(x) s_k ξ_k φ_k(x) = Σ_k ξ_k (Φᵀg)_k."""
        x, restore = _taken(g, self.grid.shape, "fields")
        scale, back = self._scale.to(x), [f.mT for f in self._functions]
        return restore(_one_by_one(lambda one: scale * _along_axes(one, back), x, self.shape))

    def covariance(self) -> np.ndarray:
        """ΦΦᵀ, E g(x) g(x′) = Σ_k s_k² φ_k(x) φ_k(x′): (*grid.shape, *grid.shape) float64, the square of the points."""
        pairs = [torch.einsum("ik,jk->ijk", f, f).reshape(-1, f.shape[1]) for f in self._functions]
        with one_torch_thread():
            summed = _along_axes(self._scale**2, pairs)
        both = summed.reshape([n for count in self.grid.shape for n in (count, count)])
        d = self.grid.ndim
        return both.permute(*range(0, 2 * d, 2), *range(1, 2 * d, 2)).contiguous().numpy()

    def variance(self) -> np.ndarray:
        """E g(x)², *grid.shape float64: the diagonal of the covariance."""
        with one_torch_thread():
            return _along_axes(self._scale**2, [f**2 for f in self._functions]).numpy()


def _taken(value: Any, shape: tuple[int, ...], what: str) -> tuple[Tensor, Callable[[Tensor], Any]]:
    refuse_complex(value, what)
    x, restore = as_tensor(value, what)
    if tuple(x.shape[max(0, x.ndim - len(shape)) :]) != shape:
        raise ValueError(f"{what} of shape {tuple(x.shape)}: expected (…, {', '.join(map(str, shape))})")
    return x, restore


def _one_by_one(f: Callable[[Tensor], Tensor], x: Tensor, result: tuple[int, ...]) -> Tensor:
    """f, which gives (*result), of every entry of x but its last len(result) axes, on one thread of torch."""
    lead = x.shape[: x.ndim - len(result)]
    with one_torch_thread():
        if not lead:
            return f(x)
        made = [f(one) for one in x.reshape(-1, *x.shape[len(lead) :])]
    return torch.stack(made).reshape(*lead, *result) if made else x.new_empty(*lead, *result)


def _along_axes(x: Tensor, matrices: Sequence[Tensor]) -> Tensor:
    """x (m_1, …, m_d) carried to (n_1, …, n_d) by a matrix (n_i, m_i) for every axis, from the last to the first."""
    matrices = [m.to(x) for m in matrices]
    x = x @ matrices[-1].mT
    for matrix in reversed(matrices[:-1]):
        x = torch.matmul(matrix, x)
        x = x.reshape(*x.shape[:-2], -1)
    return x.reshape([len(m) for m in matrices])


@kept(8)
def _functions(grid: Grid, modes: int, boundary: str) -> tuple[Tensor, ...]:
    """(points, modes) per axis: the eigenfunctions at the points, without their √(w/L)."""
    return tuple(torch.tensor(bases.functions(KIND_OF[boundary], s, modes)) for s in grid.fractions())


@lru_cache(maxsize=8)
def _scale(
    lengths: tuple[float, ...], tau: float, alpha: float, modes: int, boundary: str, normalize: bool
) -> np.ndarray:
    """(modes, …): τ^{α−d/2} (λ_k + τ²)^{−α/2} Π √(w_k/L_i), 0 for the constant; or that over its root mean square."""
    d = len(lengths)
    frequency, weights = bases.frequencies(KIND_OF[boundary], modes), 1 / bases.mean_squares(KIND_OF[boundary], modes)
    eigenvalue, weight = np.zeros((1,) * d), np.ones((1,) * d)
    for axis, length in enumerate(lengths):
        shape = [modes if i == axis else 1 for i in range(d)]
        eigenvalue = eigenvalue + ((frequency / length) ** 2).reshape(shape)
        weight = weight * weights.reshape(shape)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scale = np.float64(tau) ** (alpha - d / 2) * (eigenvalue + np.float64(tau) ** 2) ** (-alpha / 2)
    scale[(0,) * d] = 0.0
    if not (np.isfinite(scale).all() and np.sum(scale**2) > 0):
        raise ValueError(
            f"tau={tau:g} and alpha={alpha:g}: float64 cannot hold the coefficients on a domain of {lengths}; give the "
            "domain and tau in units that bring tau × length nearer to 1"
        )
    scale /= math.sqrt(np.sum(scale**2) if normalize else math.prod(lengths))
    scale *= np.sqrt(weight)
    scale.setflags(write=False)
    return scale


def _check(grid: Grid, tau: float, alpha: float, modes: int, boundary: str | None) -> None:
    if not isinstance(grid, Grid):
        raise TypeError(f"grid={grid!r}: expected a Grid, such as Grid((85, 85))")
    check_whole(2, modes=modes)
    if not (0 < tau < math.inf):
        raise ValueError(f"tau={tau}: expected a positive inverse correlation length, such as tau=3")
    if not (grid.ndim / 2 < alpha < math.inf):
        raise ValueError(
            f"alpha={alpha} on {grid.ndim} axes: expected more than {grid.ndim / 2}, else the field is not a function: "
            "its variance grows without bound with modes"
        )
    if boundary not in (None, "neumann", "periodic"):
        raise ValueError(f"boundary={boundary!r}: expected 'neumann' or 'periodic'")
