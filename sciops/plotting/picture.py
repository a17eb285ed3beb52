"""The figure that the functions of this folder return: a notebook shows it, nothing has to close it."""

from __future__ import annotations

import base64
import io
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


class Picture(Figure):
    """A `matplotlib.figure.Figure` that shows itself at the end of a notebook's cell, without pyplot.

    film : the bytes of a GIF, where the figure is the last frame of an animation; a notebook plays it
    """

    film: bytes | None = None

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        FigureCanvasAgg(self)  # which draws in memory; files of other formats bring their own

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.savefig(content, format="png", bbox_inches="tight")
        return content.getvalue()

    def _repr_html_(self) -> str | None:
        if self.film is None:
            return None
        return f'<img alt="animation" src="data:image/gif;base64,{base64.b64encode(self.film).decode()}">'
