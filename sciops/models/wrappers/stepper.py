"""A model of one time step and its unrolling: teacher forcing, backpropagation through time, pushforward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from sciops.datasets.fields.normalizers import Normalizer
from sciops.grids import Grid
from sciops.models.apply import apply_model, config_of, grid_for, wall_of
from sciops.models.spine import description
from sciops.models.summary import model_text
from sciops.models.wrappers.normalized import Normalized
from sciops.models.wrappers.step_statistics import fitted
from sciops.options import Count, CountOrZero, Within, part_of, read_options

_LATER = {"forcings": 0, "time_step": False}  # newer options: left out of descriptions where not used


@dataclass(frozen=True, kw_only=True)
class StepperOptions:
    """Options of `Stepper`.

    Parameters
    ----------
    channels : int
        Number of variables in a frame.
    history : int
        Number of frames that S sees, h, oldest first; constants c follow them and stay the same from step to step.
    steps : int
        Number of steps that forward takes. 1 is teacher forcing: every input is a true window.
    residual : bool
        S predicts the increment, with `time_step` the increment per unit of time, u_{k+1} = u_k + (t_{k+1} − t_k) S,
        which holds for steps of any length; False: S predicts the next frame itself.
    gradient : str
        How the loss of the unrolled steps reaches the parameters, and which frames forward returns:

        * "full": all frames, gradients through the whole chain (backpropagation through time)
        * "pushforward": the last frame alone; the steps before it are taken without gradient, so that S learns from
          its own outputs (the stability term of Brandstetter, Worrall and Welling, arXiv:2202.03376, with a fixed
          number of steps and no adversarial term). Targets are the frames of ``TrajectoryDataset(lead=steps − 1)``
        * "random": in training the k-th frame alone, as by "pushforward", with k drawn for every step of training from
          1 … min(epoch, `steps`): their whole scheme, as in their code. `fit` draws k, equal in all processes and
          micro-batches, and selects the target among ``TrajectoryDataset(horizon=steps)``; in a custom loop call `draw`
          and `target`. In evaluation mode all frames
        * "detached": all frames, each computed without gradient into the frames before it: for a loss that is a sum
          over frames, the sum of the pushforward losses of 1 … `steps` steps, whose first term is the one-step loss;
          "random" estimates it for the cost of one backward step
    noise : float
        Standard deviation of Gaussian noise added to the input frames in training, in units of S's own input normaliser
        (of the fields without one); the increment leads from the noisy frame to the true next one (Sanchez-Gonzalez et
        al., arXiv:2002.09405, who use 3e-4). Drawn from torch's global generator, which `fit` seeds.
    forcings : int
        Number of fields f that are known at every time; a step sees them at its start and at its end.
    time_step : bool
        The length of a step is an input of S.
    """

    channels: Count
    history: Count = 1
    steps: Count = 1
    residual: bool = True
    gradient: Literal["full", "pushforward", "random", "detached"] = "full"
    noise: Annotated[float, Within(0)] = 0.0
    forcings: CountOrZero = 0
    time_step: bool = False


class Stepper(nn.Module):
    """A model of one time step, unrolled: u_{k+1} = u_k + S(u_{k−h+1}, …, u_k; c; f_k, f_{k+1}; t_{k+1} − t_k).

    ``forward(x, grid=None)`` takes x as `TrajectoryDataset` gives it, (batch, history·channels + constants + known,
    *grid) with known = (steps + 1)·forcings, oldest first, then with `time_step` the length of each step. It returns
    (batch, frames·channels, *grid), frames in order.

    Parameters
    ----------
    model : nn.Module
        S, (batch, history·channels + constants + 2·forcings (+ 1 with `time_step`), *grid) → (batch, channels, *grid).
        `Stepper.normalized` wraps it in the statistics of states and increments.
    **options
        The fields of `StepperOptions`.

    Raises
    ------
    TypeError
        For an unknown option.
    ValueError
        For values that do not fit, and an input with too few channels.
    """

    __repr__ = model_text

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__()
        o = read_options(StepperOptions, "stepper", options)
        self.model, self.channels, self.history, self.steps = model, o.channels, o.history, o.steps
        self.residual, self.gradient, self.noise = o.residual, o.gradient, o.noise
        self.forcings, self.time_step = o.forcings, bool(o.time_step)
        self.drawn = o.steps

    @classmethod
    def normalized(cls, model: nn.Module, data: Any, *, residual: bool = True, **options: Any) -> Stepper:
        """A stepper for the windows of a data set, with its statistics around the model.

        Parameters
        ----------
        model : nn.Module
            S.
        data : TrajectoryDataset or list of them
            The training trajectories, on one or several grids and strides. A variable has the same mean and standard
            deviation in every frame; the model's output is scaled by the statistics of the increments u_{k+1} − u_k
            (with `time_step` divided by their length), or of the frames for residual=False. Constants, forcings and
            lengths of a step have their own.
        residual : bool
            As in `StepperOptions`.
        **options
            steps, gradient, noise.
        """
        sets = list(data) if isinstance(data, (list, tuple)) else [data]
        first = sets[0]
        return cls(
            Normalized(model, *fitted(sets, residual=residual)),
            channels=first.channels,
            history=first.history,
            residual=residual,
            forcings=first.forcing_channels,
            time_step=first.time_step,
            **options,
        )

    @property
    def frames(self) -> int:
        """Frames that forward returns."""
        last = self.gradient == "pushforward" or (self.gradient == "random" and self.training)
        return 1 if last else self.steps

    @property
    def wall(self) -> str:
        return wall_of(self.model)

    @property
    def config(self) -> dict[str, Any]:
        options = part_of(self, StepperOptions)  # of the attributes, which users may set
        used = {k: v for k, v in options.items() if k not in _LATER or v != _LATER[k]}
        return description("stepper", {"model": config_of(self.model), **used})

    def grid_for(self, x: Tensor, grid: Grid | None = None) -> Grid:
        return grid_for(self.model, x, grid)

    def step(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        """The next frame, (batch, channels, *grid), after the window, constants and known fields x; no noise."""
        self._check(x, 1)
        y = apply_model(self.model, x, grid)
        if y.shape[1] != self.channels:
            raise ValueError(f"the model returned {y.shape[1]} channels; a frame has {self.channels}: set out_channels")
        if not self.residual:
            return y
        return self._last(x) + (x[:, -1:] * y if self.time_step else y)

    def split(self, x: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """Splits the x of forward into window and constants, and the known fields of the `steps` steps."""
        self._check(x, steps)
        carried = x.shape[1] - (steps + 1) * self.forcings - steps * self.time_step
        return x[:, :carried], x[:, carried:]

    def told(self, x: Tensor, known: Tensor, k: int) -> Tensor:
        """The input of `step` for step k, from 0: the window and constants x, then the known fields of that step."""
        f, d = self.forcings, int(self.time_step)
        if not f + d:
            return x
        steps = (known.shape[1] - f) // (f + d)
        times = f * (steps + 1) + k * d
        return torch.cat([x, known[:, k * f : (k + 2) * f], known[:, times : times + d]], 1)

    def advance(self, x: Tensor, frame: Tensor) -> Tensor:
        """The window and constants x one step later: its oldest frame dropped, `frame` the newest."""
        seen = self.history * self.channels
        return torch.cat([x[:, self.channels : seen], frame, x[:, seen:]], 1)

    def draw(self, random: np.random.Generator, *, most: int | None = None) -> int:
        """Draws how many steps forward takes in training with gradient="random", from 1 … min(most, steps)."""
        self.drawn = int(random.integers(1, min(self.steps, most or self.steps) + 1))
        return self.drawn

    def target(self, y: Tensor) -> Tensor:
        """The frames of the targets y, (batch, steps·channels, *grid), that forward returns in training."""
        if self.gradient != "random":
            return y
        return y[:, (self.drawn - 1) * self.channels : self.drawn * self.channels]

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        x, known = self.split(x, self.steps)
        if self.training and self.noise:
            x = self._noisy(x)
        drawn = self.gradient == "random" and self.training
        steps = self.drawn if drawn else self.steps
        frames = []
        for k in range(steps):
            alone = (drawn or self.gradient == "pushforward") and k < steps - 1
            with torch.set_grad_enabled(torch.is_grad_enabled() and not alone):
                frame = self.step(self.told(x, known, k), grid)
            if not alone:
                frames.append(frame)
            if k < steps - 1:
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

    def _check(self, x: Tensor, steps: int) -> None:
        known = (steps + 1) * self.forcings + steps * self.time_step
        if x.ndim < 3 or x.shape[1] < self.history * self.channels + known:
            parts = [f"{self.history} frames × {self.channels} channels", "the constants"]
            parts += [f"{steps + 1} × {self.forcings} forcings"] * bool(self.forcings)
            parts += [f"{steps} times of a step"] * self.time_step
            raise ValueError(
                f"x has shape {tuple(x.shape)}; expected (batch, {', '.join(parts[:-1])} and {parts[-1]}, *grid)"
            )
