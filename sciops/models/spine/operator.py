"""The spine that every model is built on: lift, mix, project."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sciops.files.json_files import plain
from sciops.grids import Grid
from sciops.mixers import MIXERS, Traits, mixer_names, options_by_mixer, resolved_options, traits_of
from sciops.models.spine.blocks import ClassicBlock, LocalKernel, ResidualBlock, pointwise
from sciops.models.spine.features import coordinate_channels, coordinate_count, wall_mask
from sciops.models.spine.inputs import check_input
from sciops.models.spine.norms import make_norm
from sciops.models.summary import model_text
from sciops.options import Count, CountOrZero, read_options


@dataclass(frozen=True, kw_only=True)
class SpineOptions:
    """Options of every operator on the spine.

    Parameters
    ----------
    in_channels, out_channels : int
        Number of fields in and out.
    width, depth : int
        Number of channels inside and of blocks.
    block : str
        "residual": x + A(mixer(norm x)), then x + mlp(norm x). "classic": σ(Wx + mixer x + b), that of the FNO, to
        which mlp, mlp_ratio, mixer_activation and layer_scale do not apply.
    norm : str, optional
        "rms", "layer", "instance" or "none"; by default "rms" in residual blocks and "none" in classic ones.
    mlp, mlp_ratio : str, float
        "gated", u·GELU(v), or "plain"; hidden width over width, by default 1.5 for gated and 2 for plain. There is at
        least one hidden channel.
    mixer_activation : bool
        A GELU and a linear map after the mixer.
    local : bool
        A depthwise 3×3 convolution beside the mixer.
    local_padding : str
        Padding of that convolution: "zeros", or "replicate", the nearest point. The latter has no jump at the boundary
        and therefore works on finer grids too.
    dilate : bool
        Dilates that convolution by round(reference spacing / spacing) along each axis, so that it covers the same
        length on a finer grid. Without a reference the dilation is 1.
    coordinates : str
        Coordinate channels: "linear", "periodic", "wall", "symmetric-wall", "none" (see `coordinate_channels`) or
        "auto": "none" on a periodic reference grid, otherwise what the mixer declares, "linear" where mixers disagree.
    wall : str
        "zero" sets the output to exactly 0 at the nodes on the domain's wall.
    grid : Grid or mapping, optional
        Reference grid, usually that of the training data.
    reference_spacing : float or sequence of float, optional
        Spacing that the convolution was trained at, per axis; by default that of the reference grid.
    dealias : int
        The nonlinearities of the blocks are evaluated on a grid with `dealias` times the points (`on_finer_grid`).
    layer_scale : float, optional
        Initial value of a scale per channel on each residual branch; None leaves it out.
    ndim : int, optional
        Number of axes; by default that of the grid, or of the mixer's modes, or 2.
    """

    in_channels: Count = 1
    out_channels: Count = 1
    width: Count = 32
    depth: CountOrZero = 4
    block: Literal["residual", "classic"] = "residual"
    norm: str | None = None
    mlp: str = "gated"
    mlp_ratio: float | None = None
    mixer_activation: bool = True
    local: bool = False
    local_padding: str = "zeros"
    dilate: bool = True
    coordinates: Literal["auto", "linear", "periodic", "wall", "symmetric-wall", "none"] = "auto"
    wall: Literal["none", "zero"] = "none"
    grid: Grid | Mapping[str, Any] | None = None
    reference_spacing: float | Sequence[float] | None = None
    dealias: Count = 1
    layer_scale: float | None = None
    ndim: Count | None = None


@dataclass(frozen=True, kw_only=True)
class OperatorOptions(SpineOptions):
    """Options of `Operator`: those of the spine, and its mixers.

    Parameters
    ----------
    mixer : str or sequence of str
        A name in `sciops.mixers.MIXERS`, or several that alternate block by block.
    mixer_options : mapping, optional
        Options of the mixer; for several mixers, options by mixer name. A single number of `modes` holds for every
        axis.
    """

    mixer: str | Sequence[str] = "spectral"
    mixer_options: Mapping[str, Any] | None = None


class Operator(nn.Module):
    """A map between fields on a grid, u = Q ∘ norm ∘ B_depth ∘ … ∘ B_1 ∘ P(a, ξ).

    P and Q are pointwise two-layer maps and ξ coordinate channels. Each block B holds one mixer, the only part that
    moves information between points, besides the 3×3 convolution of `local`.

    ``forward(x, grid=None)`` maps (batch, in_channels, *grid) to (batch, out_channels, *grid). Without a grid the field
    is assumed to cover the reference grid's extent, see `grid_for`.

    Parameters
    ----------
    in_channels, out_channels : int
        Number of fields in and out.
    **options
        The fields of `OperatorOptions`.

    Raises
    ------
    TypeError
        For an unknown option.
    ValueError
        For unknown names, sizes that do not fit, and a grid whose domain is not the reference grid's.
    """

    __repr__ = model_text

    def __init__(self, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__()
        given = dict(options, in_channels=in_channels, out_channels=out_channels)
        o = read_options(OperatorOptions, "operator", given)
        names = mixer_names(o.mixer)
        by_mixer = options_by_mixer(names, o.mixer_options or {})
        reference = Grid.from_dict(dict(o.grid)) if isinstance(o.grid, Mapping) else o.grid

        self.in_channels, self.out_channels = in_channels, out_channels
        self.reference, self.wall, self.dilate = reference, o.wall, o.dilate
        known = _axes_of(by_mixer) if reference is None else reference.ndim
        self.ndim = known if o.ndim is None else o.ndim
        if reference is not None and reference.ndim != self.ndim:
            raise ValueError(f"ndim={o.ndim}: the grid has {reference.ndim} axes; leave ndim out")
        by_mixer = {name: resolved_options(name, by_mixer[name], self.ndim) for name in by_mixer}
        for (
            options
        ) in by_mixer.values():  # a smooth pyramid is tied to the model's grid, which is saved with the options
            if options.get("reference") == "auto":
                options["reference"] = reference if options.get("pyramid") == "smooth" and reference else None
        traits = {traits_of(name, by_mixer[name]) for name in by_mixer}
        self.periodic = any(one.periodic for one in traits)
        self.coordinates = _automatic(traits, reference) if o.coordinates == "auto" else o.coordinates
        self.reference_spacing = _spacing(o.reference_spacing, reference, self.ndim)
        norm = o.norm if o.norm is not None else "rms" if o.block == "residual" else "none"
        mlp_ratio = o.mlp_ratio if o.mlp_ratio is not None else 1.5 if o.mlp == "gated" else 2.0

        self.lift = pointwise((in_channels + coordinate_count(self.coordinates, self.ndim), 2 * o.width, o.width))
        shared: dict[str, Any] = dict(norm=norm, dealias=o.dealias, periodic=self.periodic)
        residual: dict[str, Any] = dict(
            mlp=o.mlp, mlp_ratio=mlp_ratio, mixer_activation=o.mixer_activation, layer_scale=o.layer_scale
        )
        blocks: list[nn.Module] = []
        for layer in range(o.depth):
            name = names[layer % len(names)]
            part = MIXERS[name](o.width, **by_mixer[name])
            kernel = LocalKernel(o.width, self.ndim, padding=o.local_padding) if o.local else None
            if o.block == "residual":
                blocks.append(ResidualBlock(o.width, part, local=kernel, **shared, **residual))
            else:
                blocks.append(ClassicBlock(o.width, part, local=kernel, last=layer == o.depth - 1, **shared))
        self.blocks = nn.ModuleList(blocks)
        self.norm = make_norm(norm if o.block == "residual" else "none", o.width)
        self.project = pointwise((o.width, 2 * o.width, out_channels))

        resolved: dict[str, Any] = dict(
            mixer=names[0] if len(names) == 1 else names,
            mixer_options=by_mixer[names[0]] if len(names) == 1 else by_mixer,
            norm=norm,
            mlp_ratio=mlp_ratio,
            coordinates=self.coordinates,
            grid=reference,
            reference_spacing=self.reference_spacing,
            ndim=self.ndim,
        )
        self.config = description("operator", replace(o, **resolved))

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        check_input(self, x)
        grid = self.grid_for(x, grid)
        h = x.movedim(1, -1)
        if self.coordinates != "none":
            xi = coordinate_channels(grid, self.coordinates, x.dtype, x.device)
            h = torch.cat([h, xi.expand(x.shape[0], *xi.shape)], dim=-1)
        h = self.lift(h)
        if x.shape[0]:  # blocks keep the shape, and of no samples there is nothing to mix
            h = self.run_blocks(h, grid, self.dilation(grid))
        y = self.project(self.norm(h)).movedim(-1, 1)
        if self.wall == "zero":
            y = y * wall_mask(grid, y.dtype, y.device)
        return y

    def run_blocks(self, h: Tensor, grid: Grid, dilation: Sequence[int]) -> Tensor:
        """B_depth ∘ … ∘ B_1 of h (batch, *grid, width); what rules for the gradient replace."""
        for block in self.blocks:
            h = block(h, grid, dilation)
        return h

    def grid_for(self, x: Tensor, grid: Grid | None = None) -> Grid:
        """The grid that x (batch, channels, *grid) lies on.

        The given grid; else the reference where the shape is the same, else the reference's extent, domain and
        centering with the shape of x; without a reference the unit box, periodic for a Fourier mixer, nodes otherwise.

        Raises ValueError when x does not fit the model or the grid, or the grid's domain is not the reference's: a
        crop of the domain is another problem, not another resolution.
        """
        if x.ndim != self.ndim + 2 or x.shape[1] != self.in_channels:
            raise ValueError(
                f"x has shape {tuple(x.shape)}; expected (batch, {self.in_channels}, *grid) with {self.ndim} grid axes"
            )
        if not x.is_floating_point():
            raise TypeError(f"x has dtype {x.dtype}; expected floating point: pass x.float()")
        shape, reference = tuple(x.shape[2:]), self.reference
        if grid is None:
            if reference is None:
                return Grid(shape, centering="periodic" if self.periodic else "node")
            if shape == reference.shape:
                return reference
            return Grid(shape, reference.extent, reference.centering, reference.domain)
        if grid.shape != shape:
            raise ValueError(
                f"x has shape {tuple(x.shape)}, but the grid is {grid.shape}; pass the grid x was sampled on"
            )
        if reference is not None and not grid.same_domain(reference):
            raise ValueError(
                f"the grid's domain is {grid.domain}; this model was made for {reference.domain}: give fields on that "
                "domain, or build_model(..., grid=None) for a model without one"
            )
        if reference is not None and grid.domain != reference.domain:
            return replace(grid, domain=reference.domain)  # periodic positions count from the reference's own start
        return grid

    def dilation(self, grid: Grid) -> tuple[int, ...]:
        """Distance in points between the taps of the local kernels on this grid, per axis."""
        if not self.dilate or self.reference_spacing is None:
            return (1,) * grid.ndim
        return tuple(max(1, round(ref / h)) for ref, h in zip(self.reference_spacing, grid.spacing))


def description(name: str, options: Any) -> dict[str, Any]:
    """The config of a model, {"name": name, "options": options} in types that JSON has.

    options : a dataclass or a dict

    Raises TypeError for an option that JSON cannot hold.
    """
    try:
        return {"name": name, "options": plain(options)}
    except TypeError as error:
        raise TypeError(f"{name}: {error}; other options could not be saved with the model") from None


def _automatic(traits: Collection[Traits], reference: Grid | None) -> str:
    if reference is not None and reference.centering == "periodic":
        return "none"
    wanted = {one.coordinates for one in traits}
    return wanted.pop() if len(wanted) == 1 else "linear"


def _axes_of(options: Mapping[str, Mapping[str, Any]]) -> int:
    for one in options.values():
        if isinstance(one.get("modes"), Sequence):
            return len(one["modes"])
        if "axes" in one:
            return one["axes"]
    return 2


def _spacing(value: Any, reference: Grid | None, ndim: int) -> tuple[float, ...] | None:
    if value is None:
        return None if reference is None else reference.spacing
    values = (float(value),) * ndim if isinstance(value, (int, float)) else tuple(float(v) for v in value)
    if len(values) != ndim or min(values) <= 0:
        raise ValueError(f"reference_spacing={value!r}: expected {ndim} positive lengths")
    return values
