"""Where a network makes its high wavenumbers: shares of energy by stage, on both grids, and what is left without them.

Colagrande et al. (arXiv:2606.00677): under Fourier truncation, intermediate representations increasingly concentrate
their energy in low frequencies, and high-frequency output is produced mainly by late nonlinear and decoder stages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from sciops.evaluation import paired_verdict
from sciops.grids import Grid
from sciops.models.apply import apply_model, placed_for
from sciops.spectral import band_errors, energy_above
from sciops.spectral.recording import watch

if TYPE_CHECKING:
    from studies.resolution_shift import ResolutionShiftConfig
    from studies.resolution_shift.case import Case

SAMPLES = 32  # test fields that the layers are watched on
LEAST = 1e-12  # shares are compared as logarithms: below this they are rounding


def stages_of(model: nn.Module) -> dict[str, str]:
    """Label of `watch` → "lift", "block 1", …, "output", in the order of the computation.

    Empty for a model that is neither built on the spine nor neuraloperator's FNO.
    """
    for path, module in model.named_modules():
        prefix = f"{path}." if path else ""
        blocks = getattr(module, "blocks", None)
        if isinstance(blocks, nn.ModuleList) and hasattr(module, "lift"):
            named = {f"{prefix}blocks.{i}": f"block {i + 1}" for i in range(len(blocks))}
            return {f"{prefix}lift": "lift"} | named | {"output": "output"}
        if hasattr(module, "fno_blocks") and hasattr(module, "lifting"):
            count = int(module.n_layers)  # type: ignore[arg-type]
            named = {f"{prefix}fno_blocks" + f"#{i + 1}" * (i > 0): f"block {i + 1}" for i in range(count)}
            return {f"{prefix}lifting": "lift"} | named | {"output": "output"}
    return {}


def shares(model: nn.Module, a: Tensor, grid: Grid, band: int) -> dict[str, np.ndarray]:
    """Stage → (samples,): share of the energy about the mean with |k|∞ ≥ band waves per extent, over all channels.

    Modes are cosines of the even extension: hidden channels neither vanish at the walls nor are periodic. Those of the
    output are sines, since u = 0 on the walls, where cosines see a kink.
    """
    stages = stages_of(model)

    def share(field: Tensor) -> np.ndarray:
        above = energy_above(field.double(), grid, band, extension="even")
        about = field.double() - _mean(field.double(), grid)
        weight = (about.square() * _weights(grid, field)).flatten(2).sum(-1)
        return ((above * weight).sum(1) / weight.sum(1).clamp_min(1e-300)).cpu().numpy()

    hidden = [label for label, stage in stages.items() if stage != "output"]
    records = watch(model, a, grid, on_output=share, layers=hidden)
    found = {stages[label]: value for label, value in zip(records.labels, records.values)}
    return found | {"output": _share_of_sines(_output(model, a, grid), grid, band)}


def _share_of_sines(y: Tensor, grid: Grid, band: int) -> np.ndarray:
    inside = low_passed(y, grid, max(grid.shape), kind="sine")  # without wall values, which sines do not hold
    high = inside - low_passed(y, grid, band, kind="sine")
    return (_energy(high, grid) / _energy(inside, grid).clamp_min(1e-300)).cpu().numpy()


def _output(model: nn.Module, a: Tensor, grid: Grid) -> Tensor:
    with torch.no_grad():
        return apply_model(model, placed_for(model, a), grid).double()


def made_later(model: nn.Module, a: Tensor, grid: Grid, band: int) -> dict[str, np.ndarray]:
    """Stage → (samples,): the part of the output's high band that is lost when the stage passes on its low band alone.

        lost = ‖Π (y' − y)‖² / ‖Π y‖²,     Π the sines |k|∞ ≥ band, y' the output with the stage's output low-passed

    Near 0, later stages make the high band from the low one; near 1, they only hand on what the stage gave them. It may
    exceed 1: the network was not trained with a low-passed stage.
    """

    def high(u: Tensor) -> Tensor:
        return _energy(low_passed(u, grid, max(grid.shape), kind="sine") - low_passed(u, grid, band, kind="sine"), grid)

    y, found = _output(model, a, grid), {}
    whole = high(y)
    for label, stage in stages_of(model).items():
        if stage == "output":
            continue
        with _low_passing(model, label, grid, band):
            found[stage] = (high(_output(model, a, grid) - y) / whole).cpu().numpy()
    return found


def low_passed(
    u: Tensor, grid: Grid, band: int, *, kind: Literal["cosine", "sine"] = "cosine", first_axis: int = 2
) -> Tensor:
    """u with the cosine or sine modes |k|∞ < band alone, k in waves per extent (multiples of ½)."""
    for axis, one in enumerate(grid.axes, start=first_axis):
        matrix = torch.from_numpy(_filter(one.shape[0], band, kind)).to(u)
        u = torch.movedim(torch.movedim(u, axis, -1) @ matrix.T, -1, axis)
    return u


@lru_cache(32)
def _filter(n: int, band: int, kind: str) -> np.ndarray:
    from scipy.fft import dct, dst, idct, idst

    if kind == "cosine":
        modes = dct(np.eye(n), type=1, axis=0)
        modes[2 * band :] = 0.0
        return idct(modes, type=1, axis=0)
    modes = dst(np.eye(n - 2), type=1, axis=0)  # half-waves 1, 2, …
    modes[2 * band - 1 :] = 0.0
    return np.pad(idst(modes, type=1, axis=0), 1)


@contextmanager
def _low_passing(model: nn.Module, label: str, grid: Grid, band: int) -> Iterator[None]:
    """The model with the output of one stage low-passed; "name#3" is the third call of the module `name`."""
    name, _, call = label.partition("#")
    calls = 0

    def hook(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls != int(call or 1):
            return output
        last = tuple(output.shape[1:-1]) == grid.shape and tuple(output.shape[2:]) != grid.shape
        return low_passed(output, grid, band, first_axis=1 if last else 2)

    handle = model.get_submodule(name).register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _energy(u: Tensor, grid: Grid) -> Tensor:
    return (u.square() * _weights(grid, u)).flatten(1).sum(-1)


def _mean(u: Tensor, grid: Grid) -> Tensor:
    weights = _weights(grid, u)
    return (u * weights).sum(tuple(range(2, u.ndim)), keepdim=True) / weights.sum()


def _weights(grid: Grid, like: Tensor) -> Tensor:
    total = torch.ones((1,) * grid.ndim, dtype=torch.float64)
    for axis, one in enumerate(grid.axes):
        shape = [-1 if i == axis else 1 for i in range(grid.ndim)]
        total = total * torch.from_numpy(one.weights()).reshape(shape)
    return total.to(like.device)


def measure(config: ResolutionShiftConfig, case: Case, jobs: list[Any]) -> dict[str, Any]:
    """Shares, losses and errors by band of every trained network of the first training grid, with verdicts.

    "shares": rows of (arm, stage, grid) with the mean over seeds and fields; "claims": one verdict per arm for each of
    the statements that `STATEMENTS` names; "bands": squared errors by band, direct and low + sine, over ‖u‖².
    """
    from tqdm.auto import tqdm

    from studies.kit.cells import write_arrays
    from studies.resolution_shift.arms import ARMS, weights_of
    from studies.resolution_shift.evaluation import load_trained, predict

    train, test, band = config.train_grids[0], config.test_grids[1], config.band
    assert band is not None
    share: dict[tuple[str, str, int], list[np.ndarray]] = defaultdict(list)
    lost: dict[tuple[str, str, int], list[np.ndarray]] = defaultdict(list)
    errors: dict[tuple[str, str, int], list[np.ndarray]] = defaultdict(list)
    edges = (float(band), (train - 1) / 2)
    arms = ARMS[config.recipe]
    # a dealiased or latent arm has no layers of its own, and costs much or says nothing new
    used = [job for job in jobs if job.points == train and arms[job.arm].dealiased == 1 and not arms[job.arm].latent]
    for job in tqdm(used, desc="layers", unit="model", disable=None):
        model, _ = load_trained(config, case, job)
        coarse = predict(model, case, train)
        fields = {"direct": predict(model, case, test), "low": case.upsample(coarse, train, test, "sine")}
        truth = case.test(test)[1]
        for way, field in fields.items():
            found = band_errors(field, truth, case.grid(test), edges, extension="odd")
            whole = found.target_energy.sum(-1, keepdim=True)
            for i, part in enumerate((found.squared_error / whole).numpy().T):
                errors[job.arm, way, i].append(part)
        if weights_of(config.recipe, job.arm) != job.arm or not stages_of(model):
            continue
        for points in (train, test):
            a = case.test(points)[0][:SAMPLES]
            for stage, value in shares(model, a, case.grid(points), band).items():
                share[job.arm, stage, points].append(value)
            for stage, value in made_later(model, a, case.grid(points), band).items():
                lost[job.arm, stage, points].append(value)
    kept = {
        f"{kind}|{'|'.join(map(str, key))}": np.stack(rows)
        for kind, found in (("share", share), ("lost", lost), ("band", errors))
        for key, rows in found.items()
    }
    write_arrays(config.output / "layers.npz", kept)
    return {
        "band": band,
        "grids": [train, test],
        "samples": min(SAMPLES, len(case.test(train)[0])),
        "shares": _rows(share),
        "lost": _rows(lost),
        "claims": _claims(share, lost, train, test),
        "bands": _band_rows(errors, edges),
    }


def _rows(found: dict[tuple[str, str, int], list[np.ndarray]]) -> list[dict[str, Any]]:
    """Geometric means over fields, by seed: shares span decades."""
    rows = []
    for (arm, stage, points), values in found.items():
        logs = np.log(np.maximum(np.stack(values), LEAST))
        seeds = np.exp(logs.mean(1))
        rows.append({"arm": arm, "stage": stage, "grid": points, "mean": float(np.exp(logs.mean())), "seeds": seeds})
    return rows


STATEMENTS = {
    "concentrates": "the share of high wavenumbers falls from the first to the last block",
    "falls everywhere": "it falls in every block",
    "decoder makes": "more than half of the output's high band is left when the decoder sees the low band alone",
    "late stages make": "more than half is left when the last block and the decoder see the low band alone",
    "decoder makes, fine": "the same on the fine grid",
    "late stages make, fine": "the same on the fine grid",
    "fine grid adds": "the last block has a larger share on the fine grid than on the training grid",
}


def _claims(share: dict, lost: dict, train: int, test: int) -> list[dict[str, Any]]:
    """Differences of logarithms, negative where the statement holds."""
    rows = []
    for arm in dict.fromkeys(arm for arm, _, _ in share):
        stages = list(dict.fromkeys(stage for name, stage, _ in share if name == arm))
        blocks = [stage for stage in stages if stage.startswith("block")]

        def of(found: dict, stage: str, points: int, arm: str = arm) -> np.ndarray:
            return np.maximum(np.stack(found[arm, stage, points]), LEAST)

        half = np.full_like(of(lost, blocks[-1], train), 0.5)
        pairs = {
            "concentrates": (of(share, blocks[-1], train), of(share, blocks[0], train)),
            "decoder makes": (of(lost, blocks[-1], train), half),
            "late stages make": (of(lost, blocks[-2], train), half) if len(blocks) > 1 else None,
            "decoder makes, fine": (of(lost, blocks[-1], test), half),
            "late stages make, fine": (of(lost, blocks[-2], test), half) if len(blocks) > 1 else None,
            "fine grid adds": (of(share, blocks[-1], train), of(share, blocks[-1], test)),
        }
        steps = [
            paired_verdict(of(share, later, train), of(share, before, train), log=True)
            for before, later in zip(blocks, blocks[1:])
        ]
        for name, pair in pairs.items():
            if pair is not None:
                rows.append({"arm": arm, "statement": name, **asdict(paired_verdict(*pair, log=True))})
        if steps:
            weakest = max(steps, key=lambda v: v.high)  # the block in which it falls least
            rows.append({"arm": arm, "statement": "falls everywhere", **asdict(weakest)})
    return rows


def _band_rows(errors: dict, edges: tuple[float, float]) -> list[dict[str, Any]]:
    rows = []
    limits = (0.0, *edges, float("inf"))
    for arm in dict.fromkeys(arm for arm, _, _ in errors):
        count = 1 + max(i for name, _, i in errors if name == arm)
        for i in range(count):
            direct, low = (np.stack(errors[arm, way, i]) for way in ("direct", "low"))
            verdict = paired_verdict(direct, low)
            about = {"arm": arm, "lower": limits[i], "upper": min(limits[i + 1], 1e9)}
            rows.append({**about, "direct_error": direct.mean(), "low_error": low.mean(), **asdict(verdict)})
    return rows
