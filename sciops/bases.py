"""One axis in sines, cosines or Fourier modes: points, transforms, eigenvalues of −d²/dx² and quadrature.

With s = (x − a)/L on an axis of length L that begins at a:

==========  ===============  =================  ==============================
kind        φ_k              k                  functions that it spans
==========  ===============  =================  ==============================
sine        sin(πks)         1, 2, …            zero on both walls
cosine      cos(πks)         0, 1, …            zero slope on both walls
fourier     exp(2πiks)       0, ±1, ±2, …       periodic with period L
==========  ===============  =================  ==============================

The points lie at s = j/(n − 1) (``node``), (j + ½)/n (``cell``) or j/n (``periodic``), j = 0 … n − 1. An axis with
walls is one half of a period: its reflection, odd or even about both walls, has P = 2(n − 1) or 2n points, and a
periodic axis has P = n. All three kinds are therefore real Fourier transforms of P points,

    u_j = Σ_k m_k Re(c_k φ_k(x_j)),      Σ_j w_j u_j² = L Σ_k m_k |c_k|²,      −φ_k″ = (2πk/(Ph))² φ_k,

with c_k the coefficients in the forward norm, h the spacing, w the quadrature weights and the multiplicity m_k = 2, but
1 where k and −k are the same function on the points (k = 0 and 2k = P).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from sciops.arrays.kinds import as_tensor

__all__ = [
    "KIND_OF",
    "Basis",
    "Centering",
    "Kind",
    "distinct",
    "fourier_numbers",
    "frequencies",
    "functions",
    "intervals",
    "mean_squares",
    "multiplicity",
    "off_walls",
    "points",
    "waves",
    "weights",
]

Centering = Literal["node", "cell", "periodic"]
Kind = Literal["sine", "cosine", "fourier"]

KIND_OF: dict[str, Kind] = {"dirichlet": "sine", "neumann": "cosine", "periodic": "fourier"}
"""The eigenfunctions of −d²/dx², by boundary condition."""

_CENTERINGS = {"sine": ("node", "cell"), "cosine": ("node", "cell"), "fourier": ("periodic", "cell")}
_ALIGNED = 1e-9  # a point nearer to a wall than this share of the spacing lies on it


def intervals(n: int, centering: Centering) -> int:
    """Number of spacings in the extent of n points."""
    return n - 1 if centering == "node" else n


def points(n: int, centering: Centering, start: float = 0.0, stop: float = 1.0) -> np.ndarray:
    """Positions of n points on [start, stop], (n,) float64."""
    spacing = (stop - start) / intervals(n, centering)
    x = start + (np.arange(n) + (0.5 if centering == "cell" else 0.0)) * spacing
    if centering == "node":
        x[-1] = stop
    return x


def weights(n: int, centering: Centering, start: float = 0.0, stop: float = 1.0) -> np.ndarray:
    """Quadrature weights of n points, (n,) float64: trapezoid on nodes, midpoint otherwise; their sum is the length."""
    w = np.full(n, (stop - start) / intervals(n, centering))
    if centering == "node":
        w[[0, -1]] *= 0.5
    return w


def functions(kind: Kind, s: np.ndarray, count: int) -> np.ndarray:
    """Values of the first `count` functions at the positions s = (x − a)/L, (len(s), count) float64.

    Parameters
    ----------
    kind
        ``sine``, ``cosine``, or ``fourier`` for the real functions 1, cos(2πs), sin(2πs), cos(4πs), …
    s
        One coordinate of the points of an axis, in increasing order. Sines are exactly 0 on the walls.
    count
        Number of functions.
    """
    k = _numbers(kind, count)
    # the product is reduced before it is multiplied by π, so that high modes lose no digits
    if kind == "sine":
        return np.where(off_walls(s)[:, None], np.sin(np.pi * np.fmod(np.multiply.outer(s, k), 2.0)), 0.0)
    if kind == "cosine":
        return np.cos(np.pi * np.fmod(np.multiply.outer(s, k), 2.0))
    turns = 2 * np.pi * np.fmod(np.multiply.outer(s, k), 1.0)
    first = np.arange(count)
    return np.where(first % 2, np.cos(turns), np.sin(turns) + (first == 0))


def frequencies(kind: Kind, count: int) -> np.ndarray:
    """κL of the first `count` `functions`, where −φ″ = κ²φ; (count,) float64."""
    return (2 * np.pi if kind == "fourier" else np.pi) * _numbers(kind, count)


def mean_squares(kind: Kind, count: int) -> np.ndarray:
    """Means of the squares of the first `count` `functions` over the axis: ½, and 1 for the constant."""
    return np.where(_numbers(kind, count) == 0, 1.0, 0.5)


def distinct(kind: Kind, s: np.ndarray) -> int:
    """Number of `functions` that evenly spaced positions s can tell apart, if they cover the axis."""
    if kind == "sine":
        return int((off_walls(s) & (s > 0) & (s < 1)).sum())
    if kind == "cosine":
        return s.size
    n = s.size - int(s.size > 1 and s[-1] - s[0] > 1 - _ALIGNED / s.size)  # a last node repeats the first one
    # an even number of points holds one function of the highest frequency, and its cosine may vanish on all of them
    return n if n % 2 or abs(np.cos(np.pi * n * s[0])) > 1e-6 else n - 1


def off_walls(s: np.ndarray) -> np.ndarray:
    """Which of the evenly spaced positions s lie on neither wall, 0 and 1."""
    spacing = (s[-1] - s[0]) / (s.size - 1) if s.size > 1 else 1.0
    return np.minimum(abs(s), abs(1 - s)) > _ALIGNED * spacing


def fourier_numbers(n: int, *, half: bool) -> np.ndarray:
    """k in the order of `torch.fft.rfft` (half: 0 … ⌊n/2⌋) or `torch.fft.fft` (0, 1, …, −2, −1); int64."""
    k = np.arange(n // 2 + 1 if half else n)
    return k if half else np.where(2 * k < n, k, k - n)


def multiplicity(k: np.ndarray, period: int) -> np.ndarray:
    """m_k: how many of k and −k are different functions on one period of points, 1 (k = 0 and 2k = P) or 2; int64."""
    return np.where((k == 0) | (2 * k == period), 1, 2)


def waves(k: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """cos(2πkj/n) and sin(2πkj/n) for whole numbers k and j = 0 … n − 1, both (len(k), n) float64."""
    # k·j is reduced as a whole number, so that large products lose no digits
    angle = np.outer(k, np.arange(n)) % n * (2.0 * np.pi / n)
    return np.cos(angle), np.sin(angle)


@dataclass(frozen=True)
class Basis:
    """The modes of a field along one axis that is sampled from wall to wall, or over one period.

    Parameters
    ----------
    kind
        ``sine`` or ``cosine`` (``node`` or ``cell`` points), or ``fourier`` (``periodic`` or ``cell`` points: the half
        spectrum of a real field, with s counted from the first point).
    n
        Number of points.
    centering
        Where the points lie.
    length
        Distance between the walls, or the period.

    Raises
    ------
    ValueError
        The centering does not fit the kind, or there are too few points to hold a mode.
    """

    kind: Kind
    n: int
    centering: Centering
    length: float = 1.0

    def __post_init__(self) -> None:
        if self.centering not in _CENTERINGS.get(self.kind, ()):
            fit = "; ".join(f"{kind!r} with {' or '.join(map(repr, c))}" for kind, c in _CENTERINGS.items())
            raise ValueError(f"kind={self.kind!r} with centering={self.centering!r}: expected {fit}")
        least = {"node": 3 if self.kind == "sine" else 2}.get(self.centering, 1)
        if self.n < least:
            raise ValueError(f"n={self.n}: a {self.kind} basis needs at least {least} {self.centering} points")

    @property
    def spacing(self) -> float:
        """h, the distance between neighbouring points."""
        return self.length / intervals(self.n, self.centering)

    @property
    def period(self) -> int:
        """P, the number of points of the reflection at both walls, or of the period."""
        return self.n if self.kind == "fourier" else 2 * intervals(self.n, self.centering)

    @property
    def numbers(self) -> np.ndarray:
        """k of every coefficient, (modes,) int64."""
        if self.kind == "fourier":
            return fourier_numbers(self.n, half=True)
        count = self.n - 2 if self.kind == "sine" and self.centering == "node" else self.n
        return _numbers(self.kind, count)

    def wavenumbers(self, *, half: bool = True) -> np.ndarray:
        """κ_k in radians per unit of length, with −φ_k″ = κ_k² φ_k; (modes,) float64.

        Fourier: of the half spectrum, or with their signs of all modes in the order of `torch.fft.fft`.
        """
        if self.kind == "fourier":
            return 2 * np.pi / self.length * fourier_numbers(self.n, half=half)
        return np.pi / self.length * self.numbers

    def eigenvalues(
        self, scheme: Literal["spectral", "finite-volume"] = "spectral", *, half: bool = True
    ) -> np.ndarray:
        """λ_k of −d²/dx², κ_k², or of its second-order differences, 4/h² sin²(κ_k h/2); (modes,) float64."""
        k, h = self.wavenumbers(half=half), self.spacing
        return k**2 if scheme == "spectral" else (2 / h * np.sin(k * h / 2)) ** 2

    def multiplicity(self) -> np.ndarray:
        """m_k: 2, and 1 where k and −k are the same function on the points; (modes,) int64."""
        return multiplicity(self.numbers, self.period)

    def matrix(self) -> np.ndarray:
        """φ_k(x_j), (n, modes) float64, complex128 for Fourier."""
        if self.kind == "fourier":
            cos, sin = waves(self.numbers, self.n)
            return (cos + 1j * sin).T
        return functions(self.kind, points(self.n, self.centering), self.numbers.size)

    def analysis(self, u: Any, axis: int = -1) -> Any:
        """c of the values u along one axis: (…, n, …) → (…, modes, …), numpy or torch, real.

        Sines do not read the values on the walls. Differentiable.
        """
        tensor, restore = as_tensor(u, "u")
        if self.kind == "fourier":
            return restore(torch.fft.rfft(tensor, dim=axis, norm="forward"))
        k, odd = self.numbers, self.kind == "sine"
        u = tensor.movedim(axis, -1)
        inside = u if self.centering == "cell" else u[..., 1:-1]
        if odd and self.centering == "node":
            u = pad(inside, (1, 1))
        mirror = inside.flip(-1)
        c = torch.fft.rfft(torch.cat([u, -mirror if odd else mirror], -1), dim=-1, norm="forward")
        c = c[..., k[0] : k[0] + k.size]
        if self.centering == "cell":
            c = c * self._turn(c).conj()
        return restore((-c.imag if odd else c.real).movedim(-1, axis))

    def synthesis(self, c: Any, axis: int = -1) -> Any:
        """u of the coefficients c along one axis: (…, modes, …) → (…, n, …), the inverse of `analysis`.

        Sines are exactly 0 on wall nodes. Imaginary parts of Fourier modes that are their own mirror are not read.
        """
        tensor, restore = as_tensor(c, "c")
        if self.kind == "fourier":
            return restore(torch.fft.irfft(tensor, n=self.n, dim=axis, norm="forward"))
        k, odd = self.numbers, self.kind == "sine"
        c = tensor.movedim(axis, -1)
        zero = torch.zeros_like(c)
        c = torch.complex(zero, -c) if odd else torch.complex(c, zero)
        if self.centering == "cell":
            c = c * self._turn(c)
        c = pad(c, (int(k[0]), self.period // 2 - int(k[-1])))
        u = torch.fft.irfft(c, n=self.period, dim=-1, norm="forward")[..., : self.n]
        if odd and self.centering == "node":
            u = pad(u[..., 1:-1], (1, 1))
        return restore(u.movedim(-1, axis))

    def _turn(self, like: Tensor) -> Tensor:
        """exp(iπk/P): from the first wall to the first cell centre, half a spacing in."""
        turn = np.exp(1j * np.pi * self.numbers / self.period)
        return torch.tensor(turn, dtype=like.dtype, device=like.device)


def _numbers(kind: Kind, count: int) -> np.ndarray:
    """k of the first `count` `functions`: 1, 2, …; 0, 1, …; or 0, 1, 1, 2, 2, …"""
    if kind == "sine":
        return np.arange(1, count + 1)
    return np.arange(count) if kind == "cosine" else (np.arange(count) + 1) // 2
