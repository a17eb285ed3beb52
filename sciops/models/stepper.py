"""A model of one time step, and its unrolling: teacher forcing, backpropagation through time, pushforward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sciops.datasets.normalizers import Normalizer
from sciops.grids import Grid
from sciops.models.apply import apply_model, config_of, wall_of
from sciops.models.normalized import Normalized

GRADIENT = ("full", "pushforward", "detached")
_POINTS = 2**24  # read at a time


class Stepper(nn.Module):
    """u_{k+1} = u_k + S(u_{k−h+1}, …, u_k; c), unrolled over `steps` steps of its own predictions.

    model : S, (batch, history·channels + constants, *grid) → (batch, channels, *grid). `Stepper.normalized` wraps it in
        the statistics of states and increments
    channels : variables in a frame
    history : frames that S sees, h, oldest first; constants c follow them and stay the same from step to step
    steps : steps that forward takes. 1 is teacher forcing: every input is a true window
    residual : S predicts the increment; False: the next frame itself
    gradient : how the loss of the unrolled steps reaches the parameters, and which frames forward returns
        "full"         all frames, gradients through the whole chain (backpropagation through time)
        "pushforward"  the last frame alone; the steps before it are taken without gradient, so that S learns from
                       inputs as it makes them itself (the stability term of Brandstetter, Worrall and Welling,
                       arXiv:2202.03376, eq. 8, with a fixed number of steps and no adversarial term). Targets are the
                       frames of ``TrajectoryDataset(lead=steps − 1)``
        "detached"     all frames, each made without gradient into the frames before it: the sum of the pushforward
                       losses of 1 … `steps` steps, whose first term is the one-step loss
    noise : standard deviation of Gaussian noise that is added to the frames seen, while training, in units of S's own
        input normaliser (of the fields without one); the increment leads from the noisy frame to the true next one
        (Sanchez-Gonzalez et al., arXiv:2002.09405, who use 3e-4). Drawn from torch's global generator, which `fit`
        seeds

    forward(x, grid=None) : (batch, history·channels + constants, *grid) → (batch, frames·channels, *grid), frames in
        order, with ``frames`` = 1 for "pushforward" and `steps` otherwise

    Raises ValueError for numbers below 1, an unknown `gradient`, and an input with too few channels.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        channels: int,
        history: int = 1,
        steps: int = 1,
        residual: bool = True,
        gradient: str = "full",
        noise: float = 0.0,
    ) -> None:
        super().__init__()
        for name, value in (("channels", channels), ("history", history), ("steps", steps)):
            if int(value) != value or value < 1:
                raise ValueError(f"{name}={value!r}: expected a whole number of at least 1")
        if gradient not in GRADIENT:
            raise ValueError(f"gradient={gradient!r}: expected one of {', '.join(GRADIENT)}")
        if not 0 <= noise < float("inf"):
            raise ValueError(f"noise={noise!r}: expected a number of at least 0")
        self.model, self.channels, self.history, self.steps = model, channels, history, steps
        self.residual, self.gradient, self.noise = residual, gradient, noise

    @classmethod
    def normalized(cls, model: nn.Module, data: Any, *, residual: bool = True, **options: Any) -> Stepper:
        """The stepper of `data`'s windows, with `model` between the statistics of its trajectories.

        data : `TrajectoryDataset` of the training trajectories, or several (other grids). Each variable has one mean
            and standard deviation for every frame it is seen in; what the model returns is scaled by the statistics of
            the increments u_{k+1} − u_k, or of the frames where residual=False; constants have their own
        options : steps, gradient, noise
        """
        sets = list(data) if isinstance(data, (list, tuple)) else [data]
        first = sets[0]
        frames = target = Normalizer.fit(block.flatten(0, 1) for block in _blocks(sets))
        if residual:
            target = Normalizer.fit(block.diff(dim=1).flatten(0, 1) for block in _blocks(sets))
        seen = Normalizer(first.history * first.channels + first.constant_channels)
        constants = None
        if first.constant_channels:
            constants = Normalizer.fit(one.constants(part) for one in sets for part in _parts(one))
        for name in ("mean", "std"):
            parts = [getattr(frames, name)] * first.history + ([] if constants is None else [getattr(constants, name)])
            getattr(seen, name).copy_(torch.cat(parts))
        return cls(
            Normalized(model, seen, target),
            channels=first.channels,
            history=first.history,
            residual=residual,
            **options,
        )

    @property
    def frames(self) -> int:
        """Frames that forward returns."""
        return 1 if self.gradient == "pushforward" else self.steps

    @property
    def wall(self) -> str:
        return wall_of(self.model)

    @property
    def config(self) -> dict[str, Any]:
        names = ("channels", "history", "steps", "residual", "gradient", "noise")
        return {"name": "stepper", "options": {"model": config_of(self.model), **{n: getattr(self, n) for n in names}}}

    def step(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        """The next frame, (batch, channels, *grid), of the window and constants x; never noisy."""
        self._check(x)
        y = apply_model(self.model, x, grid)
        if y.shape[1] != self.channels:
            raise ValueError(f"the model returned {y.shape[1]} channels; a frame has {self.channels}: set out_channels")
        return self._last(x) + y if self.residual else y

    def advance(self, x: Tensor, frame: Tensor) -> Tensor:
        """The window and constants x one step later: its oldest frame dropped, `frame` the newest."""
        seen = self.history * self.channels
        return torch.cat([x[:, self.channels : seen], frame, x[:, seen:]], 1)

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        self._check(x)
        if self.training and self.noise:
            x = self._noisy(x)
        frames = []
        for k in range(self.steps):
            alone = self.gradient == "pushforward" and k < self.steps - 1
            with torch.set_grad_enabled(torch.is_grad_enabled() and not alone):
                frame = self.step(x, grid)
            if not alone:
                frames.append(frame)
            if k < self.steps - 1:
                x = self.advance(x, frame if self.gradient == "full" else frame.detach())
        return torch.cat(frames, 1)

    def _last(self, x: Tensor) -> Tensor:
        return x[:, (self.history - 1) * self.channels : self.history * self.channels]

    def _noisy(self, x: Tensor) -> Tensor:
        seen = self.history * self.channels
        noise = self.noise * torch.randn_like(x[:, :seen])
        statistics = getattr(self.model, "input", None)
        if isinstance(statistics, Normalizer):
            noise = noise * statistics.std[:seen].to(x.device, x.dtype).view(1, seen, *(1,) * (x.ndim - 2))
        return torch.cat([x[:, :seen] + noise, x[:, seen:]], 1)

    def _check(self, x: Tensor) -> None:
        if x.ndim < 3 or x.shape[1] < self.history * self.channels:
            raise ValueError(
                f"x has shape {tuple(x.shape)}; expected (batch, {self.history} frames × {self.channels} channels and "
                "the constants, *grid)"
            )


def _blocks(sets: Sequence[Any]) -> Iterator[Tensor]:
    return (one.trajectories(part) for one in sets for part in _parts(one))


def _parts(data: Any) -> list[range]:
    size = max(1, _POINTS // (data.grid.size * data.channels * len(data.times)))
    return [range(i, min(i + size, data.count)) for i in range(0, data.count, size)]
