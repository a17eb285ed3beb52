"""Makes a picture small enough to lie beside the text: at most 1000 points wide, in few colours.

python docs/figures/small.py runs/solver_speed/figures/solver_speed.png docs/figures/solver.png
"""

import sys
from pathlib import Path

from PIL import Image

MOST = 60_000  # bytes


def small(source: str, target: str, *, most: int | None = None) -> None:
    """Writes `target`, in fewer colours and then smaller until it has at most `most` bytes."""
    image = Image.open(source).convert("RGB")
    for width, colours in ((1000, 192), (1000, 64), (900, 64), (800, 64), (700, 64)):
        size = (width, round(image.height * width / image.width))
        fitting = image.resize(size, Image.Resampling.LANCZOS) if image.width > width else image
        # by default the colours of thin lines go to the areas, which have more points
        few = fitting.quantize(colours, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        few.save(target, optimize=True)
        if most is None or Path(target).stat().st_size <= most:
            return
    raise ValueError(f"{target} has more than {most:,} bytes: draw less")


if __name__ == "__main__":
    small(*sys.argv[1:], most=MOST)
