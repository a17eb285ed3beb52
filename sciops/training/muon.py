"""Muon for matrices, AdamW for all other parameters: `MuonAdamW`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def check_muon(strategy: str) -> None:
    """Raises ValueError where torch has no Muon, or where parameters are sharded."""
    if not hasattr(torch.optim, "Muon"):
        raise ValueError(
            f"optimizer='muon' needs torch 2.9 or later, this is {torch.__version__}: pip install -U torch, or pass "
            "optimizer='adamw'"
        )
    if strategy == "fsdp":
        raise ValueError("optimizer='muon' orthogonalises whole matrices, fsdp shards them: pass strategy='ddp'")


def is_matrix(parameter: Tensor) -> bool:
    """Whether Muon trains the parameter: it has two axes, both longer than one, and is real."""
    return parameter.ndim == 2 and min(parameter.shape) > 1 and parameter.is_floating_point()


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
    learning_rate, weight_decay : float
        Of Muon; AdamW has its own.

    Notes
    -----
    torch's Muon takes parameters of two axes only: kernels of convolutions and the weights of spectral layers, one
    channel matrix for each mode, are trained by AdamW.

    References
    ----------
    K. Jordan, Muon (2024); J. Liu et al., Muon is scalable for LLM training, arXiv:2502.16982, eq. 4 for the factor.
    """

    def __init__(
        self,
        matrices: Sequence[Tensor],
        adamw: torch.optim.Optimizer | None,
        *,
        learning_rate: float,
        weight_decay: float,
    ) -> None:
        muon = torch.optim.Muon(
            matrices, lr=learning_rate, weight_decay=weight_decay, momentum=0.95, adjust_lr_fn="match_rms_adamw"
        )
        self._each: list[torch.optim.Optimizer] = [muon] if adamw is None else [muon, adamw]
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
