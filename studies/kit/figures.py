"""Parts of figures that several studies draw; the style is that of `sciops.plotting`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sciops.plotting import figure


@contextmanager
def panels(path: Path, count: int, columns: int, **options: Any) -> Iterator[np.ndarray]:
    """`sciops.plotting.figure` with `count` panels in rows of at most `columns`; yields their axes."""
    columns = min(columns, count)
    with figure(path, -(-count // columns), columns, **options) as (_, axes):
        shown, rest = np.split(axes.ravel(), [count])
        for axis in rest:
            axis.set_visible(False)
        yield shown


def band(
    axis: Any, x: ArrayLike, seeds: ArrayLike, *, label: str, style: Mapping[str, Any], alpha: float = 0.15
) -> None:
    """The mean of curves, (seed, x), over a band from their least to their greatest value."""
    seeds = np.asarray(seeds)
    axis.plot(x, seeds.mean(0), label=label, **style)
    axis.fill_between(x, seeds.min(0), seeds.max(0), color=style["color"], alpha=alpha, linewidth=0)


def round_ticks(axis: Any, low: float, high: float, steps: Sequence[int] = (1, 2, 5)) -> None:
    """Ticks of `axis.xaxis` or `axis.yaxis` at 1, 2 and 5 times the powers of ten between two values."""
    ticks(axis, [m * 10.0**e for e in range(-8, 8) for m in steps if low <= m * 10.0**e <= high])


def ticks(axis: Any, values: Sequence[float], label: Callable[[float], str] | None = None) -> None:
    """Ticks of `axis.xaxis` or `axis.yaxis` at these values alone: a logarithmic axis has many more."""
    label = label or (lambda value: f"{value:g}" if isinstance(value, float) else str(value))
    axis.set_ticks(values, [label(value) for value in values])
    axis.set_ticks([], minor=True)


def name_points(axis: Any, points: Mapping[str, tuple[float, float]], *, fontsize: float = 6) -> None:
    """Writes each name beside its point, at the first of several places where it covers no point, name or legend, and
    no horizontal line.

    Call it last: places depend on the scales and limits of the axis. A name without a free place stands where it covers
    the least.
    """
    from matplotlib.transforms import Bbox

    places = [(6, 0), (-6, 0), (5, 6), (-5, 6), (5, -6), (-5, -6), (0, 8), (0, -8), (5, 13), (-5, 13), (5, -13)]
    axis.figure.draw_without_rendering()
    at = {name: axis.transData.transform(point) for name, point in points.items()}
    taken = [Bbox.from_bounds(x - 6, y - 6, 12, 12) for x, y in at.values()]
    if axis.get_legend() is not None:
        taken.append(axis.get_legend().get_window_extent())
    lines = [line.get_window_extent() for line in axis.lines if line.get_linestyle() != "None"]
    taken += [line.padded(1) for line in lines if line.height < 1]
    for name in sorted(points, key=lambda name: at[name][1]):
        best = None
        for dx, dy in places:
            sides = {"ha": "left" if dx > 0 else "right" if dx < 0 else "center", "va": "center"}
            text = axis.annotate(
                name, points[name], (dx, dy), textcoords="offset points", fontsize=fontsize, color="0.25", **sides
            )
            box = text.get_window_extent()
            inside = Bbox.intersection(box, axis.bbox)
            covered = box.width * box.height - (inside.width * inside.height if inside is not None else 0.0)
            for other in taken:
                both = Bbox.intersection(box, other)
                covered += both.width * both.height if both is not None else 0.0
            if best is None or covered < best[0]:
                if best is not None:
                    best[1].remove()
                best = (covered, text, box)
            else:
                text.remove()
            if best[0] == 0:
                break
        taken.append(best[2])
