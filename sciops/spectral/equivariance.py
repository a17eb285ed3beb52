"""Whether a model is one operator on every grid: its answer on a fine grid against that on a coarse one."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import nn

from sciops._arrays import as_tensor
from sciops.grids import Grid, check_on_grid, restrict
from sciops.metrics import relative_l2
from sciops.resampling import resample

Refine = Literal["true", "lossless"]


def equivariance_error(
    model: nn.Module,
    a_fine: Any,
    fine: Grid,
    coarse: Grid,
    *,
    refine: Refine = "true",
    method: str | None = None,
    a_coarse: Any = None,
) -> Any:
    """E(s, S) = ‖R F(a_S) − F(a_s)‖ / ‖F(a_s)‖ per sample: a property of the model alone, no target enters.

    F runs on both grids with the same weights; a_s is the fine input restricted to the coarse grid, R takes the fine
    output to the coarse points.

    a_fine : (batch, channel, *fine)    numpy or torch, in the units the model takes
    refine : what the model sees on the fine grid:
        * "true"      a_S = a_fine, with the information that the coarse input lacks
        * "lossless"  a_S = P a_s, the coarse input interpolated: the same function on both grids, so that whatever is
                      left comes from the network alone (zero for a representation-equivalent one, arXiv:2305.19913)
    method : the interpolation P of `sciops.resample`; default "fourier" on periodic grids, "cosine" on others, which
        needs neither periodicity nor zero walls. Interpolating a two-valued field rings: pass "nearest" or "linear"
        where that matters.
    a_coarse : (batch, channel, *coarse)   the coarse input, for grids that are not nested in each other (85 in 211),
        taken from the grid that holds both
    returns : (batch,)   0 exactly where both grids are the same

    R is nodal restriction where the coarse points are among the fine ones. On cell grids, whose centres never are for
    even ratios, and on grids that are not nested, R is `resample` by `method`.

    Raises ValueError when the grids are not nested and `a_coarse` is missing, or a field does not live on its grid.
    """
    from sciops.models import apply_model

    if refine not in ("true", "lossless"):
        raise ValueError(f"refine={refine!r}: expected 'true' or 'lossless'")
    method = method or ("fourier" if fine.centering == "periodic" else "cosine")
    a, restore = as_tensor(a_fine, "a_fine")
    check_on_grid(a, fine, "a_fine")
    nested = coarse.strides_in(fine) is not None
    if a_coarse is not None:
        a_s = as_tensor(a_coarse, "a_coarse")[0].to(a)
        check_on_grid(a_s, coarse, "a_coarse")
    elif nested:
        a_s = restrict(a, fine, coarse)
    else:
        raise ValueError(
            f"grid {coarse.shape} is not nested in {fine.shape}: pass a_coarse=, the input on the coarse grid, "
            "restricted from a grid that holds both"
        )
    parameter = next(model.parameters(), None)
    cast = {} if parameter is None else {"device": parameter.device, "dtype": parameter.dtype}
    a_S = a if refine == "true" or coarse.same_points(fine) else resample(a_s, coarse, fine, method=method)
    training = {module: module.training for module in model.modules()}
    try:
        model.eval()
        with torch.no_grad():
            low = apply_model(model, a_s.to(**cast), coarse)
            high = apply_model(model, a_S.to(**cast), fine)
    finally:
        for module, flag in training.items():
            module.training = flag
    on_nodes = nested and (fine.centering != "cell" or coarse.same_points(fine))
    high = restrict(high, fine, coarse) if on_nodes else resample(high, fine, coarse, method=method)
    return restore(relative_l2(high.to(torch.float64), low.to(torch.float64), coarse))
