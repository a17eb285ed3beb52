"""Whether a model is one operator on every grid: its answer on a fine grid against that on a coarse one."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from sciops.arrays.kinds import as_tensor
from sciops.grids import Grid, check_on_grid, nesting, restrict
from sciops.metrics import relative_l2
from sciops.resampling import Method, resample

Refine = Literal["true", "lossless"]


def equivariance_error(
    model: nn.Module,
    a_fine: Any,
    fine: Grid,
    coarse: Grid,
    *,
    refine: Refine = "true",
    method: Method | None = None,
    a_coarse: Any = None,
) -> Any:
    """E(s, S) = ‖R F(a_S) − F(a_s)‖ / ‖F(a_s)‖ per sample: a property of the model alone, no target enters.

    F runs on both grids with the same weights. R takes fields of the fine grid to the coarse points, the input as well
    as the output, a_s = R a_S, so that the identity has no error on any grid.

    a_fine : (batch, channel, *fine)    numpy or torch, in the units the model takes
    refine : what the model sees on the fine grid:
        * "true"      a_S = a_fine, with the information that the coarse input lacks
        * "lossless"  a_S = P R a_fine, the coarse input interpolated: the same function on both grids, so that whatever
                      is left comes from the network alone (zero for a representation-equivalent one, arXiv:2305.19913)
    method : the interpolation P of `sciops.resample`; default "fourier" on periodic grids, "cosine" on others, which
        needs neither periodicity nor zero walls. Interpolating a two-valued field rings: pass "nearest" or "linear"
        where that matters.
    a_coarse : (batch, channel, *coarse)   the coarse input in place of R a_fine, for grids that are not nested in each
        other (85 in 211), taken from the grid that holds both
    returns : (batch,)   0 exactly where both grids are the same

    R is `sciops.restrict` on nested grids: the samples themselves on nodes and periodic points, block means on cells.
    For "lossless" on cells, and on grids that are not nested, R is `resample` by `method`. Periodic grids of one period
    need not be nested; others then need `a_coarse`.

    Raises ValueError when the grids are not nested and `a_coarse` is missing, or a field does not live on its grid.
    """
    from sciops.models.apply import apply_model, evaluating, placed_for

    if refine not in ("true", "lossless"):
        raise ValueError(f"refine={refine!r}: expected 'true' or 'lossless'")
    if method is None:
        method = "fourier" if fine.centering == "periodic" else "cosine"
    a, restore = as_tensor(a_fine, "a_fine")
    check_on_grid(a, fine, "a_fine")
    nested = nesting(fine, coarse) is not None
    if a_coarse is None and not nested and not fine.centering == coarse.centering == "periodic":
        raise ValueError(
            f"grid {coarse.shape} is not nested in {fine.shape}: pass a_coarse=, the input on the coarse grid, "
            "restricted from a grid that holds both"
        )

    def by_restriction(u: Tensor) -> Tensor:
        return restrict(u, fine, coarse) if nested else by_method(u)

    def by_method(u: Tensor) -> Tensor:
        return resample(u, fine, coarse, method=method)

    if a_coarse is None:
        a_s = by_restriction(a)
    else:
        a_s = as_tensor(a_coarse, "a_coarse")[0].to(a)
        check_on_grid(a_s, coarse, "a_coarse")
    a_S, to_coarse = a, by_restriction
    if refine == "lossless" and not coarse.same_points(fine):
        a_S = resample(a_s, coarse, fine, method=method)
        if fine.centering == "cell":
            to_coarse = by_method
        a_s = to_coarse(a_S)  # a_s again where R P = 1: all but "linear" and "cubic" where R is `resample`
    with torch.no_grad(), evaluating(model):
        low = apply_model(model, placed_for(model, a_s), coarse)
        high = apply_model(model, placed_for(model, a_S), fine)
    return restore(relative_l2(to_coarse(high).to(torch.float64), low.to(torch.float64), coarse))
