"""Trajectories as fields on a grid of time and space."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from sciops.grids import Grid
from sciops.symmetry import Symmetry


class SpaceTimeDataset(Dataset):
    """x(t, ·) = (u_0, …, u_{h−1}; constants; f(t, ·); τ), y(t, ·) = u(t, ·) on the grid (t_h, …, t_end) × space.

    trajectories : `TrajectoryDataset` with one window a trajectory that holds every frame (horizon=None), h its history
    grid : the first axis is time. A Grid has one centering for all axes; time has ends, so it is of nodes, and a period
        of space is a domain that its points stop short of
    d.batch(indices) : {"x": (batch, history·channels + constants + forcings + 1, times, *space), "y": (batch, channels,
        times, *space)}; the input is the same at every time but for forcings, which are those of that time, and τ, from
        0 at the last frame given to 1 at the end. With one frame of history, this is the form in which neuraloperator's
        Burgers set is learned

    Raises ValueError for windows that leave frames out, fewer than two times, times that are not evenly spaced, and
    trajectories with `time_step`, which the axis of time has already.
    """

    def __init__(self, trajectories: Any) -> None:
        if trajectories.windows != 1 or trajectories.lead:
            raise ValueError("expected one window a trajectory with all its frames: TrajectoryDataset(horizon=None)")
        self.source = trajectories
        if trajectories.time_step:
            raise ValueError("time_step=True: a grid of time and space says when each of its points is; leave it out")
        times = trajectories.times[trajectories.history :]
        start = trajectories.times[trajectories.history - 1]
        if len(times) < 2 or np.ptp(np.diff(times)) > 1e-6 * abs(times[-1] - times[0]):
            raise ValueError(
                f"{len(times)} times {times[:4]} …: a grid of time and space needs at least two, evenly spaced; "
                "take another stride, or --task step or trajectory"
            )
        space = trajectories.grid
        positions = space.coordinates()
        extent = [(times[0], times[-1])] + [(float(x[0]), float(x[-1])) for x in positions]
        domain = ((float(min(start, times[0])), float(times[-1])), *space.domain)
        self.grid = Grid((len(times), *space.shape), tuple(extent), "node", domain)
        self._share = torch.from_numpy((times - start) / (times[-1] - start)).to(trajectories.dtype)

    def __repr__(self) -> str:
        return f"SpaceTimeDataset({len(self)} trajectories, {self.grid!r}, of {self.source!r})"

    def __len__(self) -> int:
        return self.source.count

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {key: value[0] for key, value in self.batch([int(index)]).items()}

    @property
    def lazy(self) -> bool:
        return self.source.lazy

    @property
    def symmetry(self) -> Symmetry:
        """None but the identity: exchanges and mirror images would move the axis of time."""
        return Symmetry((), (), unknown="the first axis of the grid is time, which is neither exchanged nor mirrored")

    def close(self) -> None:
        """Lets go of the file where it is read on demand."""
        self.source.close()

    def batch(self, indices: Any) -> dict[str, Tensor]:
        fields = self.source.batch(indices)
        y = fields["y"].unflatten(1, (len(self._share), self.source.channels)).transpose(1, 2)
        return {"x": self.inputs(fields["x"]), "y": y}

    def inputs(self, x0: Tensor) -> Tensor:
        """What a model takes, of ``trajectories.initial(numbers, times)``: windows, constants and forcings."""
        times, space, forcings = len(self._share), x0.shape[2:], self.source.forcing_channels
        carried = x0.shape[1] - forcings * (times + 1)
        parts = [x0[:, :carried].unsqueeze(2).expand(-1, -1, times, *space)]
        if forcings:
            parts.append(x0[:, carried:].unflatten(1, (times + 1, forcings))[:, 1:].transpose(1, 2))
        share = self._share.to(x0.device, x0.dtype).view(1, 1, times, *(1,) * len(space))
        return torch.cat([*parts, share.expand(len(x0), 1, times, *space)], 1)
