"""A numerical solution and a learned correction to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm.auto import tqdm

from sciops.arrays.compiling import functional, one_by_one, refuse_exporting, symbolic
from sciops.datasets.fields.normalizers import Normalizer
from sciops.datasets.fields.torch_data import TensorFields
from sciops.grids import Grid
from sciops.models.apply import apply_model, config_of, grid_for, wall_of
from sciops.models.spine import description
from sciops.models.summary import model_text
from sciops.models.wrappers import Normalized
from sciops.options import Count, names_of, read_options
from sciops.pde import darcy
from sciops.resampling import resample


@dataclass(frozen=True, kw_only=True)
class CorrectorOptions:
    """Options of `Corrector`.

    Parameters
    ----------
    forcing : float
        The right-hand side f, one number.
    refine : int
        u_s is solved with `refine` intervals for each of the grid's and taken at the grid's nodes. log a is
        interpolated linearly between the nodes, so the error at an interface between two nodes is that of the geometric
        mean.
    coarsen : int
        u_s is solved on every `coarsen`-th node and interpolated by sines: cheaper and less accurate. With both 1 it is
        the solution on the grid itself.
    tol : float
        Relative residual of the solve; choose it far below the error of the discretisation.
    """

    forcing: float = 1.0
    refine: Count = 1
    coarsen: Count = 1
    tol: float = 1e-6


class Corrector(nn.Module):
    """A numerical solution and a learned correction, u = u_s + N(a, u_s).

    u_s is a numerical solution of −∇·(a∇u) = f, u = 0 on the wall, and N a network. The solution on a coarse grid has
    an error of its own, since the grid does not hold the coefficient between its nodes; N learns the regular part of
    that error. This hybrid is given the equation: compare it with u_s, which `correct = False` returns, before
    comparing it with networks that are not.

    ``forward(x, grid=None)`` maps the coefficient (batch, 1, nx, ny) to (batch, 1, nx, ny). A second channel of x is
    taken to be u_s: training computes it once, see `solved`. The grid has nodes on the walls at both ends of both axes.
    No gradient passes through the solve, under torch.func neither; an exported program takes u_s as second channel.

    Parameters
    ----------
    model : nn.Module
        N, any model from (batch, 2, nx, ny) to one channel, usually with `Normalized` around it.
    **options
        The fields of `CorrectorOptions`.

    Raises
    ------
    ValueError
        For refine and coarsen that do not fit the grid, for a coefficient that is not positive and finite, naming the
        sample, and what `sciops.pde.darcy.solve` raises.
    """

    __repr__ = model_text

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__()
        self.options = o = read_options(CorrectorOptions, "corrector", options)
        if o.refine > 1 and o.coarsen > 1:
            raise ValueError(f"refine={o.refine} and coarsen={o.coarsen}: give one of them")
        self.model, self.forcing, self.refine, self.coarsen, self.tol = model, o.forcing, o.refine, o.coarsen, o.tol
        self.correct = True

    @property
    def wall(self) -> str:
        return wall_of(self.model)

    @property
    def config(self) -> dict[str, Any]:
        return description("corrector", {"model": config_of(self.model), **vars(self.options)})

    def grid_for(self, x: Tensor, grid: Grid | None = None) -> Grid:
        if grid is not None:
            return grid
        return grid_for(self.model, torch.cat([x, x], 1) if x.shape[1] == 1 else x)

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        if x.ndim != 4 or x.shape[1] not in (1, 2):
            raise ValueError(
                f"x has shape {tuple(x.shape)}; expected (batch, 1, nx, ny) with the coefficient, or "
                "(batch, 2, nx, ny) with the solution beside it"
            )
        grid = self.grid_for(x, grid)
        if x.shape[1] == 1:
            x = torch.cat([x, self.solution(x, grid)], 1)
        if not self.correct:
            return x[:, 1:]
        return x[:, 1:] + apply_model(self.model, x, grid)

    @torch.no_grad()
    def solution(self, a: Tensor, grid: Grid) -> Tensor:
        """u_s of (batch, 1, nx, ny) coefficients: the same shape, dtype and device."""
        refuse_exporting("a solve to a tolerance", "pass the solution as a second channel, see Corrector.solved")
        return _Constant.apply(a, partial(self._solution, grid=grid)) if functional() else self._solution(a, grid)

    def _solution(self, a: Tensor, grid: Grid) -> Tensor:
        coefficient, on = checked_coefficient(a.detach(), grid)[:, 0, :: self.coarsen, :: self.coarsen], grid
        if self.refine > 1:
            on = finer_grid(grid, self.refine)
            coefficient = between_nodes(coefficient.log()[:, None], self.refine)[:, 0].exp()
        elif self.coarsen > 1:
            on = grid.coarsen(self.coarsen)
        u: Any = darcy.solve(coefficient, on, forcing=self.forcing, tol=self.tol).u[:, :: self.refine, :: self.refine]
        if self.coarsen > 1:
            u = resample(u, on, grid, "sine")
        return u[:, None].to(a.dtype)

    def solved(self, dataset: Any, *, batch_size: int = 64, progress: bool = True) -> TensorFields:
        """The data set with u_s as second input channel, so that training solves once and not in every epoch.

        dataset : has ``len``, ``.batch(indices)`` with x (batch, 1, nx, ny), and ``.grid``; one whose x has two
            channels is returned as it is
        """
        if _channels(dataset) == 2:
            return dataset
        blocks = list(self._blocks(dataset, batch_size, progress))
        symmetry = getattr(dataset, "symmetry", None)
        if symmetry is not None:  # the numerical solution is a scalar, as the solution is
            symmetry = replace(symmetry, inputs=(*symmetry.inputs, "scalar"))
        x, y = (torch.cat([block[key] for block in blocks]) for key in ("x", "y"))
        return TensorFields(x, y, dataset.grid, symmetry=symmetry)

    def fit_normalizers(self, *datasets: Any) -> Corrector:
        """Statistics of (a, u_s) and of u − u_s into the model's `Normalized`; returns self.

        `sciops.training.fit` does it where they are not fitted yet.

        datasets : the training split, or several on different grids; solved here where `solved` did not
        Raises ValueError where the model has no `Normalized`.
        """
        model = normalized_in(self)

        def blocks() -> Iterator[Tensor]:
            for dataset in datasets:
                for block in self._blocks(dataset, 64, False):
                    yield torch.cat([block["x"], block["y"] - block["x"][:, 1:]], 1)

        fitted = Normalizer.fit(blocks())
        model.input, model.output = fitted.of_channels(slice(0, 2)), fitted.of_channels(slice(2, 3))
        return self

    @property
    def normalizers_fitted(self) -> bool:
        """Whether the model's statistics are others than a mean of 0 and a deviation of 1."""
        fitted = self.model.output if isinstance(self.model, Normalized) else None
        return fitted is None or not fitted.is_identity

    def _blocks(self, dataset: Any, batch_size: int, progress: bool) -> Iterator[dict[str, Tensor]]:
        """Batches of the data set in its order, with u_s as second channel of x."""
        known = _channels(dataset) == 2
        starts = range(0, len(dataset), batch_size)
        shown = progress and not known
        for start in tqdm(starts, desc="solving", unit="batch", disable=None if shown else True, leave=False):
            batch = dict(dataset.batch(torch.arange(start, min(start + batch_size, len(dataset)))))
            if not known:
                batch["x"] = torch.cat([batch["x"], self.solution(batch["x"], dataset.grid)], 1)
            yield batch


def _channels(dataset: Any) -> int:
    """Input channels of a data set."""
    return int(dataset.batch(torch.arange(min(1, len(dataset))))["x"].shape[1])


def normalized_in(hybrid: Any) -> Normalized:
    """The `Normalized` around a hybrid's network. Raises ValueError where there is none."""
    if not isinstance(hybrid.model, Normalized):
        raise ValueError(f"the model is {type(hybrid.model).__name__}; expected Normalized(model) around it")
    return hybrid.model


class _Constant(torch.autograd.Function):
    """f(x) with zero derivatives, under torch.func too."""

    @staticmethod
    def forward(x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        return f(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[None, None]:
        return None, None

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Tensor:
        return torch.zeros_like(ctx.saved_tensors[0])

    @staticmethod
    def vmap(info: Any, axes: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        return one_by_one(_Constant.apply, info.batch_size, axes, arguments)


def checked_coefficient(a: Tensor, grid: Grid) -> Tensor:
    """a in float64. Raises ValueError for a grid without nodes on its walls and for values that are not positive.

    Values inside torch.func and torch.export are not available; the solve then refuses them.
    """
    if grid.centering != "node" or not grid.reaches_walls:
        raise ValueError(f"the grid is {grid}; expected nodes that reach the walls: resample to such a grid first")
    if symbolic():
        return a.double()
    sound = (torch.isfinite(a) & (a > 0)).flatten(1).all(1)
    if not sound.all():
        sample = int((~sound).nonzero()[0])
        raise ValueError(
            f"the coefficient of sample {sample} is not positive and finite everywhere (least {a[sample].min():.3g}): "
            "pass the coefficient itself, not normalised"
        )
    return a.double()


def finer_grid(grid: Grid, refine: int) -> Grid:
    """The node grid with `refine` intervals for each of this one's."""
    return Grid(tuple((n - 1) * refine + 1 for n in grid.shape), grid.extent)


def between_nodes(z: Tensor, refine: int) -> Tensor:
    """(batch, channels, nx, ny) at nodes, interpolated linearly along both axes to the nodes of `finer_grid`."""
    shape = tuple((n - 1) * refine + 1 for n in z.shape[2:])
    return F.interpolate(z, shape, mode="bilinear", align_corners=True)


def corrector(
    build: Callable[..., nn.Module], in_channels: int, out_channels: int, *, trunk: str = "fno", **options: Any
) -> Corrector:
    """A `Corrector` around a model by name, with wall="zero".

    Parameters
    ----------
    build : callable
        `sciops.build_model`.
    in_channels, out_channels : int
        1 and 1.
    trunk : str
        Name of the network for `build`.
    **options
        The fields of `CorrectorOptions`, and the options of the network.
    """
    if (in_channels, out_channels) != (1, 1):
        raise ValueError(f"corrector: in_channels={in_channels}, out_channels={out_channels}: expected 1 and 1")
    own = {name: options.pop(name) for name in options.keys() & names_of(CorrectorOptions)}
    if not trunk.startswith("neuralop:"):
        options.setdefault("wall", "zero")
    network = build(trunk, in_channels=2, out_channels=1, **options)
    return Corrector(Normalized(network, Normalizer(2), Normalizer(1)), **own)
