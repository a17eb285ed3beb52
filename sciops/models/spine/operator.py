"""The spine that every model is built on: lift, mix, project."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from sciops._json import plain
from sciops.grids import Grid
from sciops.mixers import MIXERS, Traits, mixer_names, options_by_mixer, resolved_options, traits_of
from sciops.models.spine.blocks import ClassicBlock, LocalKernel, ResidualBlock, pointwise
from sciops.models.spine.features import COORDINATES, coordinate_channels, coordinate_count, wall_mask
from sciops.models.spine.inputs import check_input
from sciops.models.spine.norms import make_norm


class Operator(nn.Module):
    """u = Q ∘ norm ∘ B_depth ∘ … ∘ B_1 ∘ P(a, ξ): a map between fields on a grid.

    P and Q are pointwise two-layer maps, ξ coordinate channels, and each block B holds one mixer, the only part that
    moves information between points (besides the 3×3 kernel of `local`).

    in_channels, out_channels : fields in and out
    width, depth : channels inside, number of blocks
    mixer : a name in `sciops.mixers.MIXERS`, or several that alternate block by block
    mixer_options : keyword options of the mixer; for several mixers, options by mixer name. One number of `modes` is
        that of every axis
    block : "residual", x + A(mixer(norm x)) then x + mlp(norm x); or "classic", σ(Wx + mixer x + b), the FNO's, where
        mlp, mlp_ratio, mixer_activation and layer_scale do not apply
    norm : "rms", "layer", "instance" or "none"; default "rms" for residual blocks and "none" for classic ones
    mlp, mlp_ratio : "gated", u·GELU(v), or "plain"; hidden width over width, default 1.5 gated and 2 plain; at least
        one hidden channel
    mixer_activation : GELU and a linear map after the mixer
    local : adds a depthwise 3×3 kernel beside the mixer
    local_padding : what that kernel sees outside the grid: "zeros", or "replicate", the nearest point, which does not
        jump there and so carries over to finer grids
    dilate : spreads that kernel by round(reference spacing / spacing) per axis, so that it keeps its physical reach on
        a finer grid; without a reference the spread is 1
    coordinates : "linear", "periodic", "wall", "none" (`coordinate_channels`), or "auto": none where the reference grid
        is periodic and for the sine basis, which knows the wall and then runs on finer grids as it is; wall features
        for the cosine bases; linear for every other mixer
    wall : "zero" sets the output to exactly 0 on the nodes that lie on the domain's wall
    grid : reference Grid (or its dict), usually that of the training data; kept in `config`
    reference_spacing : spacing that the local kernel was made for, per axis; default the reference grid's
    dealias : evaluates the blocks' nonlinearities on a grid of `dealias` times the points (`on_finer_grid`)
    layer_scale : initial value of a per-channel scale on each residual branch; None leaves it out
    ndim : number of axes; default that of the grid, or of the mixer's modes, or 2

    forward(x, grid=None) : (batch, in_channels, *grid) → (batch, out_channels, *grid). Without a grid the field is
        taken to lie on the reference grid's extent (`grid_for`).

    Raises ValueError for unknown names, sizes that do not fit, and a grid whose domain is not the reference's.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        width: int = 32,
        depth: int = 4,
        mixer: str | Sequence[str] = "spectral",
        mixer_options: Mapping[str, Any] | None = None,
        block: str = "residual",
        norm: str | None = None,
        mlp: str = "gated",
        mlp_ratio: float | None = None,
        mixer_activation: bool = True,
        local: bool = False,
        local_padding: str = "zeros",
        dilate: bool = True,
        coordinates: str = "auto",
        wall: str = "none",
        grid: Grid | Mapping[str, Any] | None = None,
        reference_spacing: float | Sequence[float] | None = None,
        dealias: int = 1,
        layer_scale: float | None = None,
        ndim: int | None = None,
    ) -> None:
        super().__init__()
        for name, value in dict(in_channels=in_channels, out_channels=out_channels, width=width).items():
            _check(int(value) == value and value > 0, f"{name}={value!r}: expected a positive whole number")
        _check(depth >= 0 and int(depth) == depth, f"depth={depth!r}: expected a whole number, 0 or more")
        _check(int(dealias) == dealias and dealias >= 1, f"dealias={dealias!r}: expected a whole number, 1 or more")
        _check(block in ("residual", "classic"), f"block={block!r}: expected 'residual' or 'classic'")
        _check(wall in ("none", "zero"), f"wall={wall!r}: expected 'none' or 'zero'")
        names = mixer_names(mixer)
        options = options_by_mixer(names, mixer_options or {})
        reference = Grid.from_dict(dict(grid)) if isinstance(grid, Mapping) else grid

        self.in_channels, self.out_channels = in_channels, out_channels
        self.reference, self.wall, self.dilate = reference, wall, dilate
        _check(ndim is None or (int(ndim) == ndim and ndim >= 1), f"ndim={ndim!r}: expected a number of axes")
        known = _axes_of(options) if reference is None else reference.ndim
        self.ndim = known if ndim is None else int(ndim)
        _check(
            reference is None or reference.ndim == self.ndim,
            f"ndim={ndim}: the grid has {reference.ndim if reference is not None else 0} axes; leave ndim out",
        )
        options = {name: resolved_options(name, options[name], self.ndim) for name in options}
        traits = {traits_of(name, options[name]) for name in options}
        self.periodic = any(one.periodic for one in traits)
        self.coordinates = _automatic(traits, reference) if coordinates == "auto" else coordinates
        _check(self.coordinates in COORDINATES, f"coordinates={coordinates!r}: expected 'auto' or one of {COORDINATES}")
        self.reference_spacing = _spacing(reference_spacing, reference, self.ndim)
        if norm is None:
            norm = "rms" if block == "residual" else "none"
        if mlp_ratio is None:
            mlp_ratio = 1.5 if mlp == "gated" else 2.0

        self.lift = pointwise((in_channels + coordinate_count(self.coordinates, self.ndim), 2 * width, width))
        shared = dict(norm=norm, dealias=dealias, periodic=self.periodic)
        residual = dict(mlp=mlp, mlp_ratio=mlp_ratio, mixer_activation=mixer_activation, layer_scale=layer_scale)
        blocks: list[nn.Module] = []
        for layer in range(depth):
            name = names[layer % len(names)]
            part = MIXERS[name](width, **options[name])
            kernel = LocalKernel(width, self.ndim, padding=local_padding) if local else None
            if block == "residual":
                blocks.append(ResidualBlock(width, part, local=kernel, **shared, **residual))
            else:
                blocks.append(ClassicBlock(width, part, local=kernel, last=layer == depth - 1, **shared))
        self.blocks = nn.ModuleList(blocks)
        self.norm = make_norm(norm if block == "residual" else "none", width)
        self.project = pointwise((width, 2 * width, out_channels))

        self.config = description(
            "operator",
            in_channels=in_channels,
            out_channels=out_channels,
            width=width,
            depth=depth,
            mixer=names[0] if len(names) == 1 else names,
            mixer_options=options[names[0]] if len(names) == 1 else options,
            block=block,
            norm=norm,
            mlp=mlp,
            mlp_ratio=mlp_ratio,
            mixer_activation=mixer_activation,
            local=local,
            local_padding=local_padding,
            dilate=dilate,
            coordinates=self.coordinates,
            wall=wall,
            grid=reference,
            reference_spacing=self.reference_spacing,
            dealias=dealias,
            layer_scale=layer_scale,
            ndim=self.ndim,
        )

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


def description(name: str, **options: Any) -> dict[str, Any]:
    """{"name": name, "options": options} in JSON's own types; raises TypeError for what JSON cannot hold."""
    try:
        return {"name": name, "options": plain(options)}
    except TypeError as error:
        raise TypeError(f"{name}: {error}; other options could not be saved with the model") from None


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


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
    _check(len(values) == ndim and min(values) > 0, f"reference_spacing={value!r}: expected {ndim} positive lengths")
    return values
