"""A model that always runs on one grid, and resamples fields on other grids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from sciops.grids import Grid
from sciops.models.apply import apply_model, config_of, wall_of
from sciops.models.spine.features import wall_mask
from sciops.models.summary import model_text
from sciops.resampling import resample


class Latent(nn.Module):
    """A model evaluated on a latent grid, u = P_{latent → grid} model(P_{grid → latent} a).

    The scheme of CROP (Gao, Xu, Deng, Liu, ICLR 2025) with a choice of the resampling. A function that both grids
    represent exactly gives the same result on both. Inputs finer than the latent grid are sampled at its points: detail
    between them is lost.

    Parameters
    ----------
    model : nn.Module
        Any model on (batch, channels, *grid).
    grid : Grid or mapping
        The latent grid (or its dict), usually that of the training data.
    input_method, output_method : str
        Methods of `sciops.resample`. "auto" is trigonometric on periodic grids; otherwise linear for the input, which
        keeps a two-valued coefficient within its range and is exact at nested nodes, and cubic for the output, with
        u = 0 on the walls as known points if the model sets it there. "sine" is more accurate for outputs that vanish
        on walls the grid reaches.
    """

    __repr__ = model_text

    def __init__(
        self,
        model: nn.Module,
        grid: Grid | Mapping[str, Any],
        *,
        input_method: str = "auto",
        output_method: str = "auto",
    ) -> None:
        super().__init__()
        self.model = model
        self.grid = Grid.from_dict(dict(grid)) if isinstance(grid, Mapping) else grid
        periodic = self.grid.centering == "periodic"
        self.input_method: Any = ("fourier" if periodic else "linear") if input_method == "auto" else input_method
        self.output_method: Any = ("fourier" if periodic else "cubic") if output_method == "auto" else output_method

    @property
    def wall(self) -> str:
        return wall_of(self.model)

    @property
    def config(self) -> dict[str, Any]:
        options = dict(input_method=self.input_method, output_method=self.output_method)
        return {
            "name": "latent",
            "options": {"model": config_of(self.model), "grid": self.grid.to_dict(), **options},
        }

    def grid_for(self, x: Tensor, grid: Grid | None = None) -> Grid:
        """The given grid; else the latent grid's extent, domain and centering with the shape of x."""
        if grid is not None:
            return grid
        shape = tuple(x.shape[2:])
        if shape == self.grid.shape:
            return self.grid
        return Grid(shape, self.grid.extent, self.grid.centering, self.grid.domain)

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        outer = self.grid_for(x, grid)
        if outer == self.grid:
            return apply_model(self.model, x, self.grid)
        z = resample(x, outer, self.grid, self.input_method)
        y = apply_model(self.model, z, self.grid)
        walls = self.wall == "zero" and "periodic" not in (self.grid.centering, outer.centering)
        known: dict[str, Any] = {"wall": "zero"} if walls and self.output_method in ("sine", "cubic", "linear") else {}
        u = resample(y, self.grid, outer, self.output_method, **known)
        return u * wall_mask(outer, u.dtype, u.device) if self.wall == "zero" else u
