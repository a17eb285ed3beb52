"""What program transforms make of every model: derivatives by torch.func, exported and compiled programs, copies.

    python -m studies.program_transforms
    python -m studies.program_transforms --preset full --output runs/program_transforms

Every model of the registry, every wrapper and every mixer, small and with random parameters, in a row each. The columns
are jvp, grad and vmap(grad) of torch.func, torch.export at another batch size, an ONNX file in onnxruntime,
torch.compile on grids or lengths one after the other, deepcopy, the state through safetensors, `torch.save` and pickle,
and bfloat16 autocast. A cell is the relative deviation from the eager float64 model (float32 where a model has no
other), or the line in which the transform is refused. `_transform_cells` says what each column compares.

The run ends with an error, after the results are written, where a transform gives a wrong value or fails otherwise.
Cells that were measured are read back when the run is repeated; cells that failed are measured again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from sciops.plotting import PALETTE, figure
from studies.kit.answers import sentence
from studies.kit.cells import kept
from studies.kit.choices import require_known
from studies.kit.study import finished, opened
from studies.kit.subjects import Subject, large_subjects, subjects
from studies.kit.tables import print_table
from studies.program_transforms.cells import CELLS, filled

SLOW = ("onnx", "compile")


@dataclass(frozen=True)
class Config:
    models: tuple[str, ...] = ()  # rows whose names begin with one of these; all where empty
    cells: tuple[str, ...] = ()  # columns; all where empty
    slow: tuple[str, ...] = (
        "fno",
        "language",
        "Latent",
        "mixer window cosine",
        "mixer recurrence",
        "mixer resolvent",
        "mixer linear_attention causal",
        "mixer state_space causal",
    )
    """rows in which the columns onnx and compile are filled, by their whole names; all where empty"""
    large: bool = False  # also models at the sizes they are used at, in the columns whose programs depend on the size
    backend: str = "aot_eager"  # of torch.compile; inductor takes several times longer
    output: Path = Path("runs/program_transforms")  # folder for the cells, results.json and the figure


PRESETS = {"quick": Config(), "full": Config(slow=(), large=True)}


def run(config: Config) -> dict[str, Any]:
    """Measures, prints, writes results.json and figures/program_transforms.png, and returns the results.

    Raises RuntimeError, after writing, where a cell failed; ValueError for names that are not there.
    """
    rows, columns = _chosen(config)
    folder = opened(config, seeds=[0])
    table: dict[str, dict[str, Any]] = {name: {} for name in rows}
    work = [(name, cell) for name, subject in rows.items() for cell in columns if _has(config, name, subject, cell)]
    for name, cell in tqdm(work, desc="cells", unit="cell", disable=None, leave=False):
        table[name][cell] = _cell(config, folder.path / "cells", name, rows[name], cell)
    results = {"versions": _versions(), "cells": list(columns), "table": table}
    failed = [f"{name}, {cell}" for name, row in table.items() for cell, found in row.items() if "failed" in found]
    wrong = f"{len(failed)} cells failed: {'; '.join(failed)}" if failed else ""
    return finished(folder, results, draw, show, answer=answer, picture="program_transforms.png", wrong=wrong)


def answer(results: Mapping[str, Any]) -> str:
    """How many cells give what the eager model gives, are refused, or fail."""
    cells = [found for row in results["table"].values() for found in row.values()]
    agree = [found["ok"] for found in cells if "ok" in found]
    refused, failed = (sum(kind in found for found in cells) for kind in ("refused", "failed"))
    return sentence(
        f"{len(agree)} of {len(cells)} pairs of a model and a transform give what the eager model gives, to "
        f"{max(agree, default=0.0):.0e} or better; {refused} are refused with their reason, {failed} fail"
    )


def _chosen(config: Config) -> tuple[dict[str, Subject], tuple[str, ...]]:
    everything = subjects() | (large_subjects() if config.large else {})
    rows = {name: s for name, s in everything.items() if not config.models or name.startswith(config.models)}
    if not rows:
        raise ValueError(f"--models {' '.join(config.models)}: expected beginnings of {', '.join(everything)}")
    require_known("--cells", config.cells, CELLS)
    require_known("--slow", config.slow, everything)
    return rows, config.cells or tuple(CELLS)


def _has(config: Config, name: str, subject: Subject, cell: str) -> bool:
    if subject.cells and cell not in subject.cells:
        return False
    return cell not in SLOW or not config.slow or name in config.slow


def _cell(config: Config, folder: Path, name: str, subject: Subject, cell: str) -> dict[str, Any]:
    def measured() -> dict[str, Any]:
        start = time.perf_counter()
        found = filled(subject, cell, config.backend)
        return found | {"seconds": round(time.perf_counter() - start, 2)}

    spec = {
        "cell": cell,
        "model": name,
        "made by": _described(subject.make),
        "shapes": subject.shapes,
        "versions": _versions(),
        **({"backend": config.backend} if cell == "compile" else {}),
    }
    found = kept(folder, f"{name} {cell}", spec, measured, unless=lambda record: "failed" in record)
    return {key: value for key, value in found.items() if key not in ("name", "spec")}


def _described(make: Any) -> str:
    if isinstance(make, partial):
        return f"{make.func.__qualname__} {make.args} {make.keywords}"
    return make.__qualname__


def _versions() -> dict[str, str]:
    found = {"torch": torch.__version__}
    for name in ("onnxruntime", "onnxscript", "neuraloperator", "transformers"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            pass
    return found


def show(results: Mapping[str, Any]) -> None:
    """The table, then the lines of what was refused and of what failed."""
    table, columns = results["table"], results["cells"]
    print("relative deviation from the eager model: 0 is bit for bit; R refused, F failed, blank not run")
    print_table(table, "=name", *((cell, lambda row, cell=cell: _short(row.get(cell))) for cell in columns), title="")
    for kind in ("refused", "failed"):
        lines: dict[str, list[str]] = {}
        for name, row in table.items():
            for cell, found in row.items():
                if kind in found:
                    lines.setdefault(found[kind], []).append(f"{name}, {cell}")
        if lines:
            print(f"\n{kind}:")
        for line, where in lines.items():
            print(f"  {'; '.join(where)}\n      {line}")


def _short(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    if "ok" in found:
        return f"{found['ok']:.0e}" if found["ok"] else "0"
    return "R" if "refused" in found else "F"


_LEAST, _MOST = -17.0, 0.0


def draw(results: Mapping[str, Any], path: Path) -> None:
    """The table as a picture: log₁₀ of the deviation, and what was refused, failed or not run in words."""
    table, columns = results["table"], results["cells"]
    values = np.full((len(table), len(columns)), np.nan)
    for i, row in enumerate(table.values()):
        for j, cell in enumerate(columns):
            if "ok" in row.get(cell, {}):
                values[i, j] = np.log10(max(row[cell]["ok"], 10**_LEAST))
    caption = "Relative deviation of every transformed model from the eager one, as a power of ten."
    with figure(path, width=7.0, height=1.6 + 0.2 * len(table), caption=caption) as (fig, axes):
        axis = axes[0, 0]
        axis.grid(False)
        axis.set_facecolor("white")
        image = axis.imshow(values, cmap="cividis", vmin=_LEAST, vmax=_MOST, aspect="auto")
        for i, row in enumerate(table.values()):
            for j, cell in enumerate(columns):
                if cell not in row:
                    continue
                found = row[cell]
                if "ok" in found:
                    text = f"{values[i, j]:.0f}" if found["ok"] else "0"
                    color = "white" if values[i, j] < (_LEAST + _MOST) / 2 else "black"
                else:
                    text, color = ("refused", "0.25") if "refused" in found else ("FAILED", "white")
                    face = "0.85" if "refused" in found else PALETTE[1]
                    axis.add_patch(_square(i, j, face))
                axis.text(j, i, text, ha="center", va="center", fontsize=6, color=color)
        axis.set_xticks(range(len(columns)), columns, rotation=35, ha="left")
        axis.set_yticks(range(len(table)), list(table))
        axis.tick_params(length=0, labelsize=7, top=True, bottom=False, labeltop=True, labelbottom=False)
        for edge in ("left", "bottom"):
            axis.spines[edge].set_visible(False)
        axis.set_xlabel("cells: log₁₀ of the relative deviation from the eager model; 0 is bit for bit; white: not run")
        bar = fig.colorbar(image, ax=axis, shrink=0.5)
        bar.set_label("log₁₀ of the relative deviation (−17 and below: exact)")


def _square(i: int, j: int, color: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=color, edgecolor="white", linewidth=0.5)
