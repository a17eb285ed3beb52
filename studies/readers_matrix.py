"""Every layout through every verb, on a tiny file in the exact foreign layout: one table.

    python -m studies.readers_matrix
    python -m studies.readers_matrix --layouts the-well pdebench-ns --epochs 5

For each layout: info, validate, open, one epoch of an fno on its fields, conversion to the native file with every value
equal, and the round trip (written again in its own layout, opened, and equal bit for bit). A cell that fails says why,
and the study ends with status 1.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sciops.commands.command_line import command
from studies.kit.answers import listed, sentence
from studies.kit.choices import require_known
from studies.kit.figures import panels
from studies.kit.study import finished, opened

VERBS = ("info", "validate", "open", "train", "to native", "round trip")


@dataclass(frozen=True)
class Config:
    layouts: tuple[str, ...] = ()  # of `sciops.datasets.formats.samples.SAMPLES`; default all
    epochs: int = 1  # of the fno
    width: int = 8  # channels of the fno
    batch: int = 4  # fields a step
    seed: int = 0  # of the files and of the model
    output: Path = Path("runs/readers_matrix")  # folder for results.json and the figure


PRESETS = {"quick": Config(), "full": Config(epochs=20, width=32)}


class Unsound(AssertionError):
    """A verb did something else than it should."""


def run(config: Config) -> dict[str, Any]:
    """Fills the table, prints it, writes results.json and figures/readers_matrix.png; returns the results.

    Exits with status 1 when a cell failed.
    """
    from sciops.datasets.formats.samples import SAMPLES

    layouts = config.layouts or tuple(SAMPLES)
    require_known("--layouts", layouts, SAMPLES)
    folder = opened(config, seeds=[config.seed])
    table: dict[str, dict[str, Any]] = {}
    print(f"{'layout':>28} " + " ".join(f"{verb:>10}" for verb in VERBS) + "   train loss, what it is")
    for layout in layouts:
        with tempfile.TemporaryDirectory() as scratch:
            table[layout] = _row(layout, Path(scratch), config)
        _print_row(layout, table[layout])
    failed = [(layout, verb) for layout, row in table.items() for verb in VERBS if row[verb] != "ok"]
    results = {"table": table, "failed": failed}
    finished(folder, results, _draw, _print, answer=answer, picture="readers_matrix.png")
    if failed:
        sys.exit(1)
    return results


def answer(results: dict[str, Any]) -> str:
    """How many layouts go through all verbs."""
    failed = {layout for layout, _ in results["failed"]}
    said = f"{len(results['table']) - len(failed)} of {len(results['table'])} layouts pass {listed(VERBS)}"
    return sentence(said, f"not {listed(sorted(failed))}" if failed else "")


def _row(layout: str, scratch: Path, config: Config) -> dict[str, Any]:
    from sciops.datasets.formats.samples import write_sample

    path = write_sample(layout, scratch / "file", seed=config.seed)
    row: dict[str, Any] = {}
    verbs: dict[str, Callable[[Path, dict[str, Any], Config], None]] = {
        "info": _info,
        "validate": _validate,
        "open": _open,
        "train": _train,
        "to native": _to_native,
        "round trip": _round_trip,
    }
    for verb in VERBS:
        started = time.perf_counter()
        try:
            verbs[verb](path, row, config)
            row[verb] = "ok"
        except Exception as error:
            row[verb] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        row[f"{verb} seconds"] = round(time.perf_counter() - started, 3)
    return row


def _info(path: Path, row: dict[str, Any], config: Config) -> None:
    from sciops.datasets import describe
    from sciops.datasets.formats import find_reader

    reader = find_reader(path)
    if reader is None:
        raise Unsound("no reader takes the file")
    row["reader"] = reader.name
    text = describe(path)
    if reader.name not in text or "next " not in text:
        raise Unsound(f"the text lacks the layout or what to do next: {text}")


def _validate(path: Path, row: dict[str, Any], config: Config) -> None:
    from sciops.datasets import validate

    findings = validate(path)
    row["findings"] = [str(finding) for finding in findings]
    wrong = [str(finding) for finding in findings if finding.severity == "error"]
    if wrong:
        raise Unsound(wrong[0])


def _open(path: Path, row: dict[str, Any], config: Config) -> None:
    """Opened, with everything the common form promises; nothing stays open afterwards."""
    from sciops.datasets import grid_of, open_dataset
    from sciops.datasets.conventions import parameters_of, state_of

    with open_dataset(path) as dataset:
        grid = grid_of(dataset)
        state = state_of(dataset)
        parameters_of(dataset)
        fields = [v for v in dataset.data_vars.values() if v.ndim > 1 and "sample" in v.dims]
        for field in fields:
            if not {"units", "long_name"} <= set(field.attrs):
                raise Unsound(f"{field.name} has no units or no long_name")
            if not np.isfinite(np.asarray(field[:1].values, dtype=np.float64)).all():
                raise Unsound(f"{field.name} is not finite")
        if dataset.attrs["task"] != ("trajectory" if state else "steady"):
            raise Unsound(f"task {dataset.attrs['task']!r} with state {state}")
        times = f", {dataset.sizes['time']} times" if state else ""
        shape = "×".join(map(str, grid.shape))
        row["what"] = f"{dataset.attrs['equation']}, {shape} {grid.centering}{times}, {len(fields)} fields"


def _train(path: Path, row: dict[str, Any], config: Config) -> None:
    import torch

    from sciops import build_model
    from sciops.training import TrainConfig, fit

    data = _learnable(path)
    first = data.train.batch([0])
    torch.manual_seed(config.seed)
    modes = tuple(min(6, max(1, n // 2)) for n in data.train.grid.shape)
    channels = {"in_channels": first["x"].shape[1], "out_channels": first["y"].shape[1]}
    model = build_model("fno", width=config.width, depth=2, modes=modes, **channels)
    run = fit(model, data, TrainConfig(epochs=config.epochs, batch_size=config.batch, seed=config.seed, progress=False))
    loss = run.history[-1]["loss"]
    if not np.isfinite(loss) or len(run.history) != config.epochs:
        raise Unsound(f"loss {loss} after {len(run.history)} epochs")
    row["loss"] = loss


def _learnable(path: Path) -> Any:
    """Steady fields: input to solution. Trajectories: one state to the next."""
    from sciops.datasets import FieldDataset, Splits, TrajectoryDataset, open_dataset
    from sciops.datasets.conventions import state_of

    with open_dataset(path) as dataset:
        steps = bool(state_of(dataset))
        inputs = tuple(name for name in ("a", "f") if name in dataset)[:1]
        count = dataset.sizes["sample"]
    kept = np.arange(max(1, count - 2))
    if steps:
        return Splits(train=TrajectoryDataset(path, samples=kept))
    return Splits(train=FieldDataset(path, samples=kept, inputs=inputs, outputs=("u",)))


def _to_native(path: Path, row: dict[str, Any], config: Config) -> None:
    from sciops.datasets import convert

    target = convert(path, path.with_name("native.h5"), "native")
    _compare(path, target)


def _round_trip(path: Path, row: dict[str, Any], config: Config) -> None:
    from sciops.datasets import WRITERS, convert
    from sciops.datasets.formats import find_reader

    layout = find_reader(path).name
    own = path.parent / "again"
    own.mkdir(exist_ok=True)
    suffix = {"arrays": ".npz"}.get(layout, "")
    target = convert(path, own / f"file{suffix}", layout if layout in WRITERS else "native")
    again = find_reader(target)
    if again is None or again.name != layout:
        raise Unsound(f"what was written is read as {again.name if again else 'nothing'}")
    _compare(path, target)
    shutil.rmtree(own)


def _compare(path: Path, other: Path) -> None:
    """Fields bit for bit, positions, times, constants and splits of two files."""
    from sciops.datasets import grid_of, open_dataset
    from sciops.datasets.conventions import parameters_of, state_of

    with open_dataset(path) as one, open_dataset(other) as two:
        for name, field in one.data_vars.items():
            if name not in two:
                raise Unsound(f"{name} is lost")
            if field.dims != two[name].dims or field.dtype != two[name].dtype:
                raise Unsound(f"{name}: {field.dims} {field.dtype} became {two[name].dims} {two[name].dtype}")
            if not np.array_equal(np.asarray(field.values), np.asarray(two[name].values), equal_nan=True):
                raise Unsound(f"{name} has other values")
            if grid_of(one, name) != grid_of(two, name):
                raise Unsound(f"{name} lies elsewhere: {grid_of(one, name)} became {grid_of(two, name)}")
        for coordinate in ("x", "y", "z", "time"):
            if coordinate in one.coords and not np.allclose(
                one[coordinate].values, two[coordinate].values, rtol=0, atol=1e-12
            ):
                raise Unsound(f"coordinate {coordinate} moved")
        if (state_of(one), parameters_of(one)) != (state_of(two), parameters_of(two)):
            raise Unsound("the state or the constants are lost")
        if one.attrs["equation"] != two.attrs["equation"]:
            raise Unsound(f"equation {one.attrs['equation']} became {two.attrs['equation']}")


def _print_row(layout: str, row: dict[str, Any]) -> None:
    cells = " ".join(f"{'ok' if row[verb] == 'ok' else 'FAILED':>10}" for verb in VERBS)
    loss = f"{row['loss']:.3f}" if "loss" in row else "-"
    print(f"{layout:>28} {cells}   {loss}, {row.get('what', '')}")


def _print(results: dict[str, Any]) -> None:
    for layout, verb in results["failed"]:
        print(f"  {layout}, {verb}: {results['table'][layout][verb]}")
    print(f"\n{len(results['table'])} layouts, {len(results['failed'])} cells failed")


def _draw(results: dict[str, Any], path: Path) -> None:
    table, caption = results["table"], "Which verbs pass on a tiny file of every layout."
    with panels(path, 1, 1, width=7.0, height=0.7 + 0.23 * len(table), caption=caption) as (axis,):
        good = np.array([[row[verb] == "ok" for verb in VERBS] for row in table.values()])
        colours = np.where(good[..., None], (0.337, 0.706, 0.914), (0.835, 0.369, 0.0))
        axis.imshow(colours, aspect="auto")
        for (i, j), fine in np.ndenumerate(good):
            axis.text(j, i, "ok" if fine else "failed", ha="center", va="center", fontsize=7)
        axis.set_xticks(range(len(VERBS)), VERBS)
        axis.xaxis.tick_top()
        axis.set_yticks(range(len(table)), list(table))
        axis.grid(False)
        for side in axis.spines.values():
            side.set_visible(False)


if __name__ == "__main__":
    command(run, PRESETS)
