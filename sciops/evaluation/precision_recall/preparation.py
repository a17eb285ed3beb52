"""Two clouds of feature vectors: the check of what comes in, normalisation, and principal components."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from sciops.arrays.kinds import as_tensor, like, refuse_complex
from sciops.arrays.scale import power_of_two, widened

Normalize = Literal["none", "l2", "zscore"]


class Prepared(NamedTuple):
    """Two clouds in the same coordinates.

    reference, generated : (samples, components)
    kept : share of the mean square about the reference's mean that the components hold, of the reference and of the
        generated samples; a second number below the first says that generated samples differ where no component looks
    """

    reference: Any
    generated: Any
    kept: tuple[float, float]


def prepared(
    reference: Any,
    generated: Any,
    *,
    normalize: Normalize = "none",
    explained: float | None = 0.9,
    fit: Literal["union", "reference"] = "union",
    residual: bool = False,
) -> Prepared:
    """Normalises two clouds and projects both on principal components of one fit.

    Parameters
    ----------
    reference, generated : array (samples, features)
        numpy or torch.
    normalize : {"none", "l2", "zscore"}
        "l2" divides every row by its length, as is usual for hidden states of text; it removes the amplitude, which of
        a field is physical. "zscore" divides every feature by its deviation in the reference; a feature that is
        constant there is divided by the root mean square of the other deviations.
    explained : float, optional
        Keeps the fewest components that hold this share of the variance; None projects on nothing.
    fit : {"union", "reference"}
        Whose components: of both clouds together (arXiv:2402.10693), or of the reference alone, so that the scores of
        one model do not depend on the samples of another.
    residual : bool
        Adds one coordinate, the distance from the span of the components. Components of the reference alone do not see
        what leaves their span, such as noise on smooth fields; their distance from it does.

    Returns
    -------
    Prepared
        In the kind, device and precision of the reference.

    Raises
    ------
    ValueError
        The clouds do not fit each other or hold NaN, or an option is out of range.
    """
    x, y, unit = clouds(reference, generated)
    if normalize not in ("none", "l2", "zscore"):
        raise ValueError(f"normalize={normalize!r}: expected 'none', 'l2' or 'zscore'")
    if fit not in ("union", "reference"):
        raise ValueError(f"fit={fit!r}: expected 'union' or 'reference'")
    if explained is not None and not 0 < explained <= 1:
        raise ValueError(f"explained={explained!r}: expected a share in 0 < explained ≤ 1, or None")
    if normalize == "l2":
        x, y = (v / _nonzero(torch.linalg.vector_norm(v, dim=1, keepdim=True)) for v in (x, y))
    if normalize == "zscore":
        deviations = _deviations(x)
        x, y = x / deviations, y / deviations
    kept = (1.0, 1.0)
    if explained is not None:
        x, y, kept = _projected(x, y, explained, fit, residual)
    if normalize == "none":
        x, y = x * unit, y * unit
    return Prepared(like(reference, x), like(reference, y), kept)


def clouds(reference: Any, generated: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Both clouds as tensors (samples, features) of one precision in units of a power of two, and this unit.

    It is near the largest value, so that squares of distances stay in range.

    Raises ValueError for other shapes, different devices, complex numbers, NaN and infinities, naming the first sample.
    """
    named = {"reference": reference, "generated": generated}
    tensors = []
    for name, value in named.items():
        refuse_complex(value, name)
        cloud = widened(as_tensor(value, name)[0].detach())
        if cloud.ndim != 2 or 0 in cloud.shape:
            raise ValueError(
                f"{name} has shape {tuple(cloud.shape)}: expected (samples, features), at least one of each; "
                "field_features flattens fields"
            )
        bad = (~torch.isfinite(cloud).all(1)).nonzero().flatten()
        if len(bad):
            raise ValueError(
                f"{name}: {len(bad)} of {len(cloud)} samples hold NaN or infinity, the first is sample {int(bad[0])}; "
                "leave them out, and report how many there were"
            )
        tensors.append(cloud)
    x, y = tensors
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"reference has {x.shape[1]} features, generated {y.shape[1]}: expected the same features")
    if x.device != y.device:
        raise ValueError(f"reference is on {x.device}, generated on {y.device}: move one of them")
    dtype = torch.promote_types(x.dtype, y.dtype)
    x, y = x.to(dtype), y.to(dtype)
    unit = torch.maximum(power_of_two(x, (0, 1)), power_of_two(y, (0, 1)))
    return x / unit, y / unit, unit


def _projected(
    x: Tensor, y: Tensor, explained: float, fit: str, residual: bool
) -> tuple[Tensor, Tensor, tuple[float, float]]:
    fitted = torch.cat([x, y]) if fit == "union" else x
    centre = fitted.mean(0)
    axes = _principal_axes(fitted - centre, explained)
    parts, kept = [], []
    for cloud in (x, y):
        moved = cloud - centre
        inside = moved @ axes
        outside = torch.linalg.vector_norm(moved - inside @ axes.T, dim=1, keepdim=True)
        total = (cloud - x.mean(0)).square().sum()
        within = ((cloud - x.mean(0)) @ axes).square().sum()
        kept.append(float(within / total) if total > 0 else 1.0)
        parts.append(torch.cat([inside, outside], 1) if residual else inside)
    return parts[0], parts[1], (kept[0], kept[1])


def _principal_axes(centred: Tensor, explained: float) -> Tensor:
    """(features, r): orthonormal, the fewest whose variances reach the share; one where there is no variance."""
    n, d = centred.shape
    wide = d > n
    variances, vectors = torch.linalg.eigh(centred @ centred.T if wide else centred.T @ centred)
    variances, vectors = variances.flip(0).clamp_min(0), vectors.flip(1)
    total = variances.sum()
    reached = variances.cumsum(0)
    limit = explained * total * (1 - 10 * torch.finfo(total.dtype).eps)  # sums of round-off do not reach 1 exactly
    r = min(int((reached < limit).sum()) + 1, len(variances))
    axes = vectors[:, :r]
    if wide:
        axes = centred.T @ axes
        axes = torch.linalg.qr(axes).Q if total > 0 else torch.eye(d, 1, dtype=axes.dtype, device=axes.device)
    return axes


def _deviations(x: Tensor) -> Tensor:
    """(features,) standard deviations; constant features have the root mean square of the others, or 1."""
    deviation = x.std(0, correction=0)
    varies = deviation > 8 * torch.finfo(x.dtype).eps * x.abs().amax(0)
    others = deviation[varies].square().mean().sqrt() if varies.any() else deviation.new_tensor(1.0)
    return torch.where(varies, deviation, others)


def _nonzero(v: Tensor) -> Tensor:
    return torch.where(v == 0, 1.0, v)
