"""The picture of the front page, from the files of "The first hour": a few seconds.

python docs/figures/front_page.py darcy.h5 RUN docs/figures/front-page.png
"""

import sys
from pathlib import Path

import numpy as np
from small import small

import sciops
from sciops.datasets import load_splits
from sciops.plotting import figure
from sciops.trained.prediction import predict

SAMPLE = 2  # of the test fields


def main(data: str, run: str, output: str) -> None:
    """Coefficient, solution, prediction and error of one test field on two grids, on one scale a column."""
    rows = []
    for points in (43, 85):
        batch = load_splits(data, points).test.batch([SAMPLE])
        a, u = batch["x"][0, 0].numpy(), batch["y"][0, 0].numpy()
        prediction = np.asarray(predict(run, a, sciops.Grid((points, points))))
        rows.append((points, a, u, prediction, np.abs(prediction - u)))
    top, worst = max(row[2].max() for row in rows), max(row[4].max() for row in rows)
    scales = ((3, 12, "Greys"), (0, top, "viridis"), (0, top, "viridis"), (0, worst, "magma"))
    with figure(Path(output), 2, 4, width=2.1, height=2.0) as (drawing, axes):
        for row, (points, *fields) in zip(axes, rows, strict=True):
            titles = ("coefficient a", "solution u", "prediction", "|prediction − u|")
            for axis, field, title, (low, high, colours) in zip(row, fields, titles, scales, strict=True):
                image = axis.imshow(field.T, origin="lower", extent=(0, 1, 0, 1), vmin=low, vmax=high, cmap=colours)
                axis.set(title=title, xticks=(0, 1), yticks=(0, 1))
                axis.grid(visible=False)
                drawing.colorbar(image, ax=axis, shrink=0.8)
            row[0].set_ylabel(f"{points}² nodes" + (", trained here" if points == 43 else ", never seen"))
    small(output, output)


if __name__ == "__main__":
    main(*sys.argv[1:])
