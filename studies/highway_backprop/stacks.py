"""Stacks on small Darcy fields, trained by backpropagation and by Highway-BP with k = 0 … from the same start."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tqdm.auto import tqdm

from sciops.datasets import Splits, TensorFields
from sciops.evaluation import spread
from sciops.grids import Grid
from sciops.models import build_model
from sciops.pde import darcy
from sciops.random_fields import gaussian_random_field, two_phase
from sciops.training import GRADIENTS, Batch, TrainConfig, evaluate, fit
from sciops.training.gradients import compared, groups_of
from studies.kit.study import picked
from studies.kit.tables import grouped
from studies.kit.timing import interleaved
from studies.kit.verdicts import seed_verdict, shown

if TYPE_CHECKING:
    from studies.highway_backprop import Config

MODELS: dict[str, dict[str, Any]] = {"fno": dict(width=12, modes=(5, 5)), "mano": dict(width=12, heads=2, window=2)}


def arms(config: Config) -> dict[str, tuple[str, dict[str, Any]]]:
    """Name in tables and figures → (rule, options); backpropagation first."""
    found = {"backprop": ("backprop", {})} | {f"k = {k}": ("highway", {"iterations": k}) for k in config.iterations}
    k = config.split_iterations
    return found | ({} if k is None else {f"k = {k}, γ*": ("highway", {"iterations": k, "gamma": "hutchinson"})})


def fields(config: Config) -> Splits:
    """Darcy flow through two phases, u = 0 on the walls: training and test fields."""
    grid, total = Grid((config.points,) * 2), config.train + config.test
    a = two_phase(gaussian_random_field(grid, total, tau=3.0, alpha=2.0, seed=config.data_seed))
    u = darcy.solve(a, grid).u
    a, u = (torch.from_numpy(np.ascontiguousarray(values)).float().unsqueeze(1) for values in (a, u))
    return Splits(
        TensorFields(a[: config.train], u[: config.train], grid),
        None,
        TensorFields(a[config.train :], u[config.train :], grid),
    )


def made(name: str, config: Config, grid: Grid, seed: int, **changes: Any) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        options = MODELS[name] | {"depth": config.blocks} | changes
        return build_model(name, in_channels=1, out_channels=1, grid=grid, **options)


def trained(config: Config, data: Splits) -> list[dict[str, Any]]:
    """One record a run, over models, seeds and arms."""
    grid = data.train.grid
    plan = [(name, seed, arm) for name in config.models for seed in config.seeds for arm in arms(config).items()]
    steps = config.epochs * -(-config.train // config.batch_size)
    records = []
    for name, seed, (arm, (rule, options)) in tqdm(plan, desc="training", unit="run", disable=None, leave=False):
        settings = TrainConfig(
            **picked(config, "epochs batch_size learning_rate"),
            validate_every=config.epochs,
            gradients=rule,
            gradient_options=options,
            diagnose_every=None if rule == "backprop" else max(1, (steps - 1) // config.looks),
            seed=seed,
            device="cpu",
            progress=False,
        )
        run = fit(made(name, config, grid, seed), data, settings)
        looks = [row for record in run.history for row in record.get("diagnosis", [])]
        records.append(
            {
                "model": name,
                "seed": seed,
                "arm": arm,
                "error": float(evaluate(run.model, data.test, ("relative_l2",))["relative_l2"].mean()),
                "loss": run.history[-1]["loss"],
                "steps": run.steps,
                "looks": [
                    {
                        "share": (row["step"] - 1) / max(steps - 1, 1),
                        "cosine": row["cosine"]["all"],
                        "norm_ratio": row["norm_ratio"]["all"],
                    }
                    for row in looks
                ],
            }
        )
    return records


def summary(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a model and arm: test error over the seeds, the same over backpropagation's, cosines on the way."""
    rows = []
    groups = grouped(records, "model", "arm")
    for (name, arm), own in groups.items():
        base = {r["seed"]: r["error"] for r in groups[name, "backprop"]}
        found = spread(r["error"] for r in own)
        row = {
            "model": name,
            "arm": arm,
            "error": found.mean,
            "spread": found.deviation,
            "loss": float(np.mean([r["loss"] for r in own])),
            "relative": float(found.mean / np.mean([base[r["seed"]] for r in own])),
            "relative_by_seed": [r["error"] / base[r["seed"]] for r in own],
            "verdict": _against(own, base) if arm != "backprop" else "",
        }
        if own[0]["looks"]:
            for key in ("cosine", "norm_ratio"):
                values = np.array([[look[key] for look in r["looks"]] for r in own]).mean(0)
                row[key] = [float(values[i]) for i in (0, len(values) // 2, -1)]
        rows.append(row)
    return rows


def _against(own: list[dict[str, Any]], base: dict[int, float]) -> str:
    """ln(error / backpropagation's) over seeds, with its verdict: "first" errs less, "second" more."""
    return shown(seed_verdict([r["error"] for r in own], [base[r["seed"]] for r in own], log=True), "+.3f")


def step_times(config: Config, data: Splits) -> dict[str, dict[str, float]]:
    """Milliseconds of one step's gradient, forward and backward, by model and arm: medians of turns."""
    found = {}
    for name in config.models:
        model = made(name, config, data.train.grid, 0)
        batch = _batch(data, config.batch_size)
        calls = {
            arm: partial(GRADIENTS[rule], model, _loss, batch, **options)
            for arm, (rule, options) in arms(config).items()
        }
        seconds = interleaved(calls, rounds=config.rounds)
        found[name] = {short: 1e3 * float(np.median(values)) for short, values in seconds.items()}
    return found


def cosines_by_depth(config: Config, data: Splits) -> list[dict[str, Any]]:
    """Cosine of the blocks' gradient at the start against the number of layers, with and without small branches.

    Small branches: layer scales of 1/√layers.
    """
    rows = []
    batch = _batch(data, config.batch_size)
    for blocks in config.depths:
        for scale in (None, (2 * blocks) ** -0.5):
            model = made("fno", config, data.train.grid, 0, depth=blocks, layer_scale=scale)
            groups, truth = groups_of(model), _gradient(model, "backprop", batch)
            for k in config.iterations:
                found = compared(_gradient(model, "highway", batch, iterations=k), truth, groups)
                rows.append(
                    {"layers": 2 * blocks, "scaled": scale is not None, "k": k, "cosine": found["cosine"]["blocks"]}
                )
    return rows


def _gradient(model: torch.nn.Module, rule: str, batch: Batch, **options: Any) -> dict[str, torch.Tensor]:
    model.zero_grad(set_to_none=True)
    GRADIENTS[rule](model, _loss, batch, **options)
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def _batch(data: Splits, size: int) -> Batch:
    x, y = data.train.x[:size], data.train.y[:size]
    return Batch((x - x.mean()) / x.std(), (y - y.mean()) / y.std(), data.train.grid, 1.0)


def _loss(prediction: torch.Tensor, batch: Batch) -> torch.Tensor:
    return (prediction - batch.y).square().mean()
