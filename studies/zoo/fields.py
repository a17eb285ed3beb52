"""Models of fields: their data, their training by ``sciops train``, their errors, their folders."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sciops.files.json_files import write_json
from sciops.files.untrusted import read_json
from sciops.metrics import relative_l2
from sciops.models import Corrector
from sciops.resampling import resample
from sciops.trained.evaluation import evaluate_on
from sciops.trained.native_solve import native_solve
from sciops.trained.opening import open_trained
from sciops.trained.problem import open_problem
from sciops.zoo import ModelCard, write_card
from studies import train
from studies.zoo.machine import this_machine
from studies.zoo.recipes import RECIPES, TEST_SEED, Recipe

CHECKED = 4  # test samples whose errors a card holds one by one
SHIFTED = 10  # test samples on other grids, at most


def trained(name: str, output: Path, into: Path | None) -> ModelCard:
    """Makes the fields that are missing, trains or resumes, tests, and writes the model's folder with its card."""
    recipe = RECIPES[name]
    data = output / "data" / f"{recipe.generator}.h5"
    recipe.make(recipe.training_fields(data))
    run = output / "runs" / name
    results = train.run(replace(recipe.train, data=data, folder=run, progress=True))
    card = _card(name, recipe, run, output, results)
    for place in filter(None, (output / "models", into)):
        _publish(run, place / name, card)
    return card


def errors(name: str, folder: Path, output: Path, count: int) -> list[float]:
    """Relative L2 errors of a model on its first test samples, whose fields are made anew under `output`."""
    recipe = RECIPES[name]
    test = output / "data" / f"{recipe.generator}_{count}.h5"
    recipe.make(replace(recipe.test_fields(test, count), resolutions=recipe.fields.resolutions, progress=False))
    return list(_evaluated(folder, test, recipe, count=count))


def measured(name: str, folder: Path, output: Path) -> dict[str, Any]:
    """What a card states of a model's errors, on all test samples; their fields are made where they are missing."""
    recipe = RECIPES[name]
    test = output / "data" / f"{recipe.generator}_test.h5"
    recipe.make(recipe.test_fields(test))
    found = _evaluated(folder, test, recipe)
    return {
        "error": float(found.mean()),
        "spread": float(found.std(ddof=1)),
        "worst": float(found.max()),
        "check": tuple(map(float, found[:CHECKED])),
        "shift": tuple(_shifted(folder, test, recipe, n) for n in recipe.grids),
        "baseline": _baseline(recipe, folder, test),
    }


def _evaluated(folder: Path, test: Path, recipe: Recipe, count: int | None = None) -> np.ndarray:
    samples = None if count is None else range(count)
    return evaluate_on(folder, test, samples=samples, resolution=recipe.own, solutions=0, progress=False).relative_l2


def _card(name: str, recipe: Recipe, run: Path, output: Path, results: dict[str, Any]) -> ModelCard:
    fields, description = recipe.fields, open_trained(run)
    return ModelCard(
        name=name,
        title=recipe.title,
        equation=recipe.equation,
        law=recipe.law,
        data=_generate(recipe),
        training=f"sciops study zoo --models {name}",
        model=description.name,
        parameters=sum(2 * p.numel() if p.is_complex() else p.numel() for p in description.model.parameters()),
        grid=f"{'×'.join([str(recipe.own)] * (1 if recipe.generator == 'burgers' else 2))} "
        f"{'nodes' if recipe.generator == 'darcy' else 'periodic points'}",
        train_samples=int(fields.samples - fields.validation),
        test_samples=recipe.test_samples,
        metric="relative_l2",
        seeds={"training fields": fields.seed, "test fields": TEST_SEED, "weights": recipe.train.seed},
        limits=recipe.limits,
        seconds=float(results["seconds"]),
        **measured(name, run, output),
        **this_machine(),
    )


def _generate(recipe: Recipe) -> str:
    fields = recipe.fields
    words = f"sciops generate {recipe.generator} --samples {fields.samples} --resolutions "
    return words + f"{' '.join(map(str, fields.resolutions))} … (all options in studies/zoo/recipes.py)"


def _shifted(run: Path, test: Path, recipe: Recipe, points: int) -> dict[str, Any]:
    """A row of the card: the model on another grid, and its own grid's result brought there."""
    trained, some = open_trained(run), range(min(SHIFTED, recipe.test_samples))
    here, there = (open_problem(trained, test, samples=some, resolution=n) for n in (recipe.own, points))
    errors: dict[str, list[float]] = {"direct": [], "resampled": []}
    for numbers in there.batches():
        truth = there.truth(numbers)[:, 0]
        errors["direct"] += relative_l2(there.predict(numbers)[:, 0], truth).tolist()
        moved = resample(here.predict(numbers)[:, 0], here.grid, there.grid, recipe.method)
        errors["resampled"] += relative_l2(moved, truth).tolist()
    row = {"grid": "×".join(map(str, there.grid.shape)), "method": recipe.method, "samples": len(some)}
    return row | {name: float(np.mean(values)) for name, values in errors.items()}


def _baseline(recipe: Recipe, run: Path, test: Path) -> dict[str, float]:
    """What needs no training: the solver on the model's grid of a steady problem, else the initial field kept."""
    trained = open_trained(run)
    problem = open_problem(trained, test, resolution=recipe.own)
    if recipe.kind == "steady":
        solved = native_solve(problem, problem.count)
        if isinstance(solved, str):
            raise RuntimeError(f"{test}: {solved}")
        found = {"the solver on the same grid": float(solved.relative_l2.mean())}
        model: Any = trained.model
        if isinstance(model, Corrector):
            model.correct = False
            errors = [relative_l2(problem.predict(n)[:, 0], problem.truth(n)[:, 0]) for n in problem.batches()]
            found["the solve that it corrects"] = float(np.concatenate(errors).mean())
        return found
    wrong: list[float] = []
    for numbers in problem.batches():
        truth = problem.truth(numbers).flatten(1, 2)
        kept = problem.inputs(numbers).to(truth).expand_as(truth)
        wrong += relative_l2(kept, truth).tolist()
    return {"the first frame kept": float(np.mean(wrong))}


def _publish(run: Path, folder: Path, card: ModelCard) -> None:
    """Copies what predictions need, and the card, to the model's folder."""
    (folder / "model").mkdir(parents=True, exist_ok=True)
    for file in ("model/config.json", "model/model.safetensors"):
        shutil.copyfile(run / file, folder / file)
    config = read_json(run / "config.json")
    write_json(folder / "config.json", config | {"data": None, "folder": Path(f"runs/{card.name}").as_posix()})
    write_json(folder / "environment.json", {"config_class": read_json(run / "environment.json")["config_class"]})
    write_card(folder, card)
