"""`animate`: a field that evolves, as a GIF by pillow or an MP4 by ffmpeg."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.arrays.dimensions import by_name
from sciops.files.whole_files import replacing
from sciops.files.writable import writable_file
from sciops.grids import Grid
from sciops.plotting.fields import fields_by_name, image_panels, panels_of
from sciops.plotting.sampled import Sampled, coordinate_text, sampled, with_unit
from sciops.plotting.scales import scale_of
from sciops.plotting.style import new_figure, series, styled
from sciops.values import check_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 100


def animate(
    u: Any,
    grid: Grid | None = None,
    *,
    times: Sequence[float] | np.ndarray | None = None,
    title: str = "",
    label: str = "",
    units: str = "",
    signed: bool | None = None,
    limits: tuple[float, float] | None = None,
    fps: float = 12.0,
    most: int = 120,
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Animates fields over time, in one colour scale from the first frame to the last, with the time in the title.

    Parameters
    ----------
    u : array, or mapping of arrays
        (time, *grid) on one, two or three axes, numpy, torch (any device, with or without gradients) or xarray with a
        dimension ``time``. A mapping {"truth": u, "prediction": p} shows several side by side, in one colour scale.
    grid : Grid, optional
        Where the points lie; xarray goes without.
    times : sequence of float, optional
        The time of each frame; default those of xarray, else the frames' numbers.
    title, label, units : str
        Of the figure, and of the values.
    signed, limits
        The colour scale, as in `plot_field`; on one axis `limits` are those of the vertical axis.
    fps : float
        Frames per second.
    most : int
        Frames of the animation; of a longer trajectory that many, evenly spaced from the first to the last.
    path : str or path-like, optional
        File to write: .gif (by pillow), or .mp4 where ffmpeg is installed. Without it the GIF is kept in the figure,
        and a notebook plays it.

    Returns
    -------
    matplotlib.figure.Figure
        The last frame.

    Raises
    ------
    TypeError, ValueError
        For what is not an array of real numbers over time, and does not fit the grid or the times.
    OSError
        For an .mp4 where ffmpeg is not installed, and where no file can be written.

    Examples
    --------
    >>> grid = Grid(32, centering="periodic")
    >>> x, t = grid.coordinates()[0], np.arange(4)[:, None]
    >>> figure = animate(np.sin(2 * np.pi * (x - 0.1 * t)), grid)    # doctest: +SKIP
    """
    if not fps > 0:
        raise ValueError(f"fps={fps!r}: expected frames per second above 0")
    check_whole(most=most)
    path = None if path is None else _writable(path)
    named = fields_by_name(u)
    found = {str(name): _trajectory(one, grid, times, most, str(name)) for name, one in named.items()}
    trajectories = {name: one for name, (one, _) in found.items()}
    if len({(len(one.values), len(one.axes)) for one in trajectories.values()}) > 1:
        raise ValueError("the fields differ in the number of frames or of axes: expected the same of all")
    first, frames = next(iter(found.values()))
    told = with_unit(label, units) if label or units else first.label
    with styled():
        scale = scale_of(*(one.values for one in trajectories.values()), signed=signed, limits=limits)
        film = _Curves(trajectories, told, limits) if len(first.axes) == 1 else _Images(trajectories, told, scale)
        heading = film.fig.suptitle(" ", fontsize=10)

        def show(frame: int) -> None:
            film.show(frame)
            heading.set_text(f"{title}, {frames[frame]}" if title else frames[frame])

        show(0)
        film.fig.canvas.draw()
        film.fig.set_layout_engine("none")  # the places of the first frame hold for all: nothing moves but the field
        if path is not None and path.suffix.lower() == ".mp4":
            _write_mp4(film.fig, show, len(frames), fps, path)
        else:
            film.fig.film = _gif(film.fig, show, len(frames), fps)
            if path is not None:
                with replacing(path) as temporary:
                    temporary.write_bytes(film.fig.film)
    return film.fig


def _trajectory(u: Any, grid: Grid | None, times: Any, most: int, name: str) -> tuple[Sampled, list[str]]:
    """(the frames that are shown, the time of each in words)."""
    labelled = hasattr(u, "dims") and hasattr(u, "coords")
    if labelled:
        u = by_name(u)
        if "time" not in u.dims:
            raise ValueError(f"{name} has the dimensions {tuple(u.dims)}: expected one called time")
        u = u.squeeze([dim for dim in u.dims if u.sizes[dim] == 1 and dim not in ("time", "x", "y", "z")])
        u = u.transpose("time", ...)
    elif grid is None:
        raise ValueError(f"an animation needs the grid of {name}: pass animate(u, sciops.Grid(…))")
    else:
        u = u if hasattr(u, "shape") else np.asarray(u)
    if grid is not None and u.ndim != grid.ndim + 1:
        raise ValueError(
            f"{name} has shape {tuple(u.shape)}: expected (time, {', '.join(map(str, grid.shape))}); take one sample "
            "and one channel of it, such as u[0]"
        )
    if times is not None and len(times) != u.shape[0]:
        raise ValueError(f"times has {len(times)} entries and {name} {u.shape[0]} frames: expected as many")
    count = u.shape[0]
    chosen = np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int))
    if not count:
        raise ValueError(f"{name} has shape {tuple(u.shape)}: there is nothing to draw")
    if times is not None:
        words = [f"time {float(times[i]):.4g}" for i in chosen]
    elif labelled:
        words = [coordinate_text(u, "time", int(i)) for i in chosen]
    else:
        words = [f"frame {i}" for i in chosen]
    if not labelled or grid is not None:
        return sampled(u[chosen], grid, most=len(chosen), name=name), words
    # the frames one by one, so that time is not taken for an axis of the picture
    parts = [sampled(u.isel(time=int(i)), most=1, name=name) for i in chosen]
    if parts[0].total > 1:
        raise ValueError(f"{name} has the dimensions {tuple(u.dims)}: expected time and space; take one sample of it")
    return replace(parts[0], values=np.concatenate([part.values for part in parts])), words


class _Images:
    """Fields on two axes, or the middle slices of three, whose colours change from frame to frame."""

    def __init__(self, trajectories: dict[str, Sampled], label: str, scale: Any) -> None:
        self.trajectories = trajectories
        panels = self._panels(0)
        self.fig, axes, self.images = image_panels(panels, [scale] * len(panels), width=3.0)
        self.fig.colorbar(self.images[0], ax=axes, shrink=0.9, label=label, pad=0.02)

    def show(self, frame: int) -> None:
        for image, panel in zip(self.images, self._panels(frame)):
            image.set_array(np.ma.masked_invalid(panel.values.T))

    def _panels(self, frame: int) -> list[Any]:
        now = {
            name: replace(one, values=one.values[frame : frame + 1], entries=("",))
            for name, one in self.trajectories.items()
        }
        return [panel for name, one in now.items() for panel in panels_of(one, name)]


class _Curves:
    """Fields on one axis, on a vertical axis that stays."""

    def __init__(self, trajectories: dict[str, Sampled], label: str, limits: tuple[float, float] | None) -> None:
        self.trajectories = trajectories
        self.fig, axes = new_figure(width=4.6, height=3.0)
        axis = axes[0, 0]
        self.lines = []
        for (name, one), style in zip(trajectories.items(), series()):
            (line,) = axis.plot(one.axes[0].points, one.values[0], label=name, **style | {"marker": None})
            self.lines.append(line)
        finite = np.concatenate([one.values[np.isfinite(one.values)] for one in trajectories.values()])
        low, high = (float(finite.min()), float(finite.max())) if limits is None else limits
        margin = 0.05 * (high - low) or 0.5 * (abs(high) or 1.0)
        axis.set_ylim(low - margin, high + margin)
        axis.set_xlabel(next(iter(trajectories.values())).axes[0].label)
        axis.set_ylabel(label or "u")
        if len(trajectories) > 1:
            axis.legend(loc="upper right")

    def show(self, frame: int) -> None:
        for line, one in zip(self.lines, self.trajectories.values()):
            line.set_ydata(one.values[frame])


def _gif(fig: Any, show: Any, frames: int, fps: float) -> bytes:
    """The GIF, in one palette for all frames: colours mean the same number in each of them."""
    from PIL import Image

    def drawn(frame: int) -> Any:
        show(frame)
        fig.canvas.draw()
        return Image.fromarray(np.asarray(fig.canvas.buffer_rgba())[..., :3])

    samples = [drawn(frame) for frame in sorted({0, frames // 2, frames - 1})]
    wide = Image.new("RGB", (samples[0].width, samples[0].height * len(samples)))
    for i, one in enumerate(samples):
        wide.paste(one, (0, i * one.height))
    palette = wide.quantize(256, dither=Image.Dither.NONE)
    pictures = [drawn(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in range(frames)]
    colours, corner = pictures[0].getpalette(), 3 * pictures[0].getpixel((0, 0))
    colours[corner : corner + 3] = [255] * 3  # the background, of which quantization makes a light grey
    for picture in pictures:
        picture.putpalette(colours)
    content = io.BytesIO()
    pictures[0].save(
        content, format="GIF", save_all=True, append_images=pictures[1:], duration=round(1000 / fps), loop=0
    )
    return content.getvalue()


def _write_mp4(fig: Any, show: Any, frames: int, fps: float, path: Path) -> None:
    import matplotlib
    from matplotlib.animation import FFMpegWriter

    options: dict[str, Any] = {"fps": fps, "extra_args": ["-f", "mp4"]}
    writer = FFMpegWriter(**options)
    with replacing(path) as temporary, matplotlib.rc_context({"savefig.bbox": None}):
        with writer.saving(fig, str(temporary), _DPI):
            for frame in range(frames):
                show(frame)
                writer.grab_frame()


def _writable(path: str | os.PathLike[str]) -> Path:
    path = writable_file(path)
    if path.suffix.lower() not in (".gif", ".mp4"):
        raise ValueError(f"{path}: expected an animation's ending, .gif or .mp4")
    if path.suffix.lower() == ".mp4":
        from matplotlib.animation import FFMpegWriter

        if not FFMpegWriter.isAvailable():
            raise OSError(f"{path}: ffmpeg is not installed, which writes .mp4: install it, or name {path.stem}.gif")
    return path
