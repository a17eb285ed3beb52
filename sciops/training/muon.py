"""Muon for matrices, and for stacks of them, AdamW for all other parameters: `MuonAdamW`, `StackedMuon`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

_ITERATION = (3.4445, -4.7750, 2.0315)  # K. Jordan's quintic, which torch's Muon has too


def check_muon(optimizer: str, strategy: str) -> None:
    """Raises ValueError where torch has no Muon, or where parameters are sharded."""
    if not hasattr(torch.optim, "Muon"):
        raise ValueError(
            f"optimizer='{optimizer}' needs torch 2.9 or later, this is {torch.__version__}: pip install -U torch, or "
            "pass optimizer='adamw'"
        )
    if strategy == "fsdp":
        raise ValueError(
            f"optimizer='{optimizer}' orthogonalises whole matrices, fsdp shards them: pass strategy='ddp'"
        )


def is_matrix(parameter: Tensor) -> bool:
    """Whether Muon trains the parameter: it has two axes, both longer than one, and is real."""
    return parameter.ndim == 2 and min(parameter.shape) > 1 and parameter.is_floating_point()


def matrix_stacks(model: nn.Module) -> dict[nn.Parameter, bool]:
    """{weight of one matrix per mode: whether it is complex, with [Re, Im] in its second-last axis}."""
    return {
        weight: pairs
        for module in model.modules()
        if hasattr(module, "matrix_stacks")
        for weight, pairs in module.matrix_stacks()
        if weight.requires_grad
    }


class MuonAdamW(torch.optim.Optimizer):
    """`torch.optim.Muon` for matrices beside `torch.optim.AdamW` for all other parameters, as one optimiser.

    Muon replaces the update of a matrix by the nearest orthogonal matrix of its momentum (Nesterov, 0.95; five
    Newton–Schulz steps), times 0.2·√(longer side)·rate, which has the root mean square of an AdamW update, so that one
    learning rate serves both.

    Parameters
    ----------
    matrices : sequence of Tensor
        Parameters with two axes.
    adamw : torch.optim.AdamW, optional
        The optimiser of all other parameters; None where there are none.
    stacks : StackedMuon, optional
        The optimiser of stacks of matrices.
    learning_rate, weight_decay : float
        Of Muon; AdamW has its own.

    Notes
    -----
    torch's Muon takes parameters of two axes only: kernels of convolutions, and without `stacks` the weights of
    spectral layers, one channel matrix for each mode, are trained by AdamW.

    References
    ----------
    K. Jordan, Muon (2024); J. Liu et al., Muon is scalable for LLM training, arXiv:2502.16982, eq. 4 for the factor.
    """

    def __init__(
        self,
        matrices: Sequence[Tensor],
        adamw: torch.optim.Optimizer | None,
        stacks: StackedMuon | None = None,
        *,
        learning_rate: float,
        weight_decay: float,
    ) -> None:
        options = {"lr": learning_rate, "weight_decay": weight_decay, "momentum": 0.95}
        muon = torch.optim.Muon(matrices, adjust_lr_fn="match_rms_adamw", **options) if matrices else None
        self._each: list[torch.optim.Optimizer] = [one for one in (muon, stacks, adamw) if one is not None]
        super().__init__([group for one in self._each for group in one.param_groups], {})
        self._share()

    @property
    def state(self) -> Any:
        """{parameter: its quantities} of both."""
        return {p: quantities for one in self._each for p, quantities in one.state.items()}

    @state.setter
    def state(self, value: Any) -> None:
        """Held by the two optimisers; torch's constructor sets it empty."""

    def _share(self) -> None:
        """One list of the very groups of both, so that a rate set here is a rate set there."""
        self.param_groups = [group for one in self._each for group in one.param_groups]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for one in self._each:
            one.step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        first_group, first = 0, 0
        for one in self._each:
            groups = state_dict["param_groups"][first_group : first_group + len(one.param_groups)]
            count = sum(len(group["params"]) for group in groups)
            state = {i - first: q for i, q in state_dict["state"].items() if first <= i < first + count}
            numbered = [{**group, "params": [number - first for number in group["params"]]} for group in groups]
            one.load_state_dict({"state": state, "param_groups": numbered})
            first_group, first = first_group + len(groups), first + count
        self._share()


class StackedMuon(torch.optim.Optimizer):
    """Muon for stacks of matrices: the weights of spectral layers, one channel matrix for each mode.

    With gradient G, momentum m ← 0.95 m + 0.05 G and u = 0.05 G + 0.95 m, every matrix of the weight moves by

        W ← (1 − λη) W − 0.2·√(longer side)·η · polar(u),

    polar(u) ≈ (u uᴴ)^(−1/2) u by five Newton–Schulz steps. Complex matrices, whose two parts count as numbers of their
    own, take √(2·longer side): the root mean square of an update is 0.2 η, as in `torch.optim.Muon` with
    adjust_lr_fn="match_rms_adamw". The steps are in float32, or float64 where the weight is.

    Parameters
    ----------
    stacks : dict of Parameter to bool
        Weights (*modes, rows, columns), and whether they are complex: (*modes, rows, 2, columns) with [Re, Im].
    learning_rate, weight_decay : float
        η and λ.

    References
    ----------
    As `MuonAdamW`.
    """

    def __init__(self, stacks: dict[nn.Parameter, bool], *, learning_rate: float, weight_decay: float) -> None:
        groups = [
            {"params": params, "complex_pairs": pairs}
            for pairs in (False, True)
            if (params := [p for p, is_pair in stacks.items() if is_pair == pairs])
        ]
        super().__init__(groups, {"lr": learning_rate, "weight_decay": weight_decay, "momentum": 0.95, "ns_steps": 5})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            rate, momentum, pairs = group["lr"], group["momentum"], group["complex_pairs"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                if "momentum_buffer" not in self.state[p]:
                    self.state[p]["momentum_buffer"] = torch.zeros_like(p)
                mean = self.state[p]["momentum_buffer"].lerp_(p.grad, 1 - momentum)
                update = p.grad.lerp(mean, momentum).to(torch.promote_types(p.dtype, torch.float32))
                if pairs:
                    update = torch.complex(*update.unbind(-2))
                longer = max(update.shape[-2:])
                update = polar_factors(update, group["ns_steps"])
                if pairs:
                    update, longer = torch.stack([update.real, update.imag], -2), 2 * longer
                p.mul_(1 - rate * group["weight_decay"]).add_(update.to(p.dtype), alpha=-0.2 * math.sqrt(longer) * rate)
        return loss


def polar_factors(matrices: Tensor, steps: int = 5) -> Tensor:
    """(X Xᴴ)^(−1/2) X of every matrix of (…, rows, columns), nearly: singular values become 0.7 to 1.2, zero stays.

    X ← a X + b (X Xᴴ) X + c (X Xᴴ)² X, `steps` times, from X over its Frobenius norm.
    """
    a, b, c = _ITERATION
    shape = matrices.shape
    x = matrices.reshape(-1, *shape[-2:])
    turned = shape[-2] > shape[-1]
    x = x.mH if turned else x
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=1e-7)
    for _ in range(steps):
        gram = x @ x.mH
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mH if turned else x).reshape(shape)
