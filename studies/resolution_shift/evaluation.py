"""Errors of every model, every way and every grid of the resolution-shift study, and the paired verdicts over them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sciops.evaluation import paired_verdict, spread
from sciops.files.digest import read_sealed
from sciops.grids import restrict
from sciops.metrics import relative_l2, relative_mse
from studies.kit.cells import write_arrays
from studies.kit.pool import run_on
from studies.resolution_shift.applied import Dealiased, SamePeriod, ZeroWall
from studies.resolution_shift.arms import ARMS, weights_of
from studies.resolution_shift.case import Case, load_case

if TYPE_CHECKING:
    from studies.resolution_shift import ResolutionShiftConfig

BATCH = 16


def evaluate(config: ResolutionShiftConfig, case: Case, jobs: list[Any], executor: Executor) -> dict[str, Any]:
    """Errors, verdicts and mismatches of all models, each evaluated by the executor, for JSON.

    Ways: ``direct``; ``direct, undilated`` (local kernels not spread); ``low + …``; ``low-passed input`` (the coarse
    coefficient carried to S, then direct). References have arm ``reference``: ``truth + …`` is the floor of low + …,
    ``native + …`` the coarse solve carried up, ``native`` the solve on S itself.
    """
    start = time.perf_counter()
    found, training = _references(config, case), []
    for row, one in run_on(executor, evaluate_one, [(config, job) for job in jobs], desc="evaluating", unit="model"):
        training.append(row)
        found.take(one)
    samples, squared, equivariance = found.samples, found.squared, found.equivariance
    arrays = {key: np.stack(rows) for key, rows in samples.items()}
    write_arrays(config.output / "errors.npz", arrays)  # (seeds, test fields) under "arm|train|test|way"
    once = {job.folder: row["seconds"] for job, row in zip(jobs, training)}  # arms may share weights
    return {
        "grids": {str(n): case.grid(n).to_dict() for n in case.splits},
        "coefficient": case.coefficient,
        "test_samples": len(next(iter(case.splits.values())).test),
        "training": training,
        "errors": [_row(key, errors, np.stack(squared[key])) for key, errors in arrays.items()],
        "verdicts": _verdicts(arrays),
        "causes": _causes(config, arrays),
        "equivariance": [
            dict(zip(("arm", "train", "test", "input"), _split(key))) | _spread(np.stack(rows))
            for key, rows in equivariance.items()
        ],
        "seconds": {
            "training": sum(once.values()) / max(1, min(config.workers, len(once))),  # that many at a time
            "evaluation": time.perf_counter() - start,
        },
    }


@dataclass
class _Found:
    """Errors of every test field, one row a model, under "arm|train|test|way"; and mismatches between grids."""

    samples: dict[str, list[np.ndarray]] = field(default_factory=dict)
    squared: dict[str, list[np.ndarray]] = field(default_factory=dict)
    equivariance: dict[str, list[np.ndarray]] = field(default_factory=dict)

    def record(self, case: Case, arm: str, train: int, test: int, way: str, prediction: Any) -> None:
        truth = case.test(test)[1]
        key = f"{arm}|{train}|{test}|{way}"
        self.samples.setdefault(key, []).append(relative_l2(prediction, truth).numpy())
        self.squared.setdefault(key, []).append(relative_mse(prediction, truth).numpy())

    def take(self, other: _Found) -> None:
        """Adds the rows of another one below its own."""
        for one in fields(self):
            mine = getattr(self, one.name)
            for key, rows in getattr(other, one.name).items():
                mine.setdefault(key, []).extend(rows)


def evaluate_one(config: ResolutionShiftConfig, job: Any) -> tuple[dict[str, Any], _Found]:
    """(what the training of one model reported; its errors on all grids in every way), in a worker or here."""
    case = _fields(config)
    model, run = load_trained(config, case, job)
    found = _Found()
    for name, variant in variants(config, case, job, model).items():
        coarse = predict(variant, case, job.points)
        for test in config.test_grids:
            if test >= job.points and not _left_out(config, case, job, test):
                _evaluate_on(test, name, variant, coarse, job, case, found)
    return {"arm": job.arm, "train": job.points, "seed": job.seed, **run}, found


@lru_cache(1)
def _fields(config: ResolutionShiftConfig) -> Case:
    """The fields, once in each process."""
    return load_case(config, native=False)


def _evaluate_on(test: int, name: str, model: Any, coarse: Any, job: Any, case: Case, found: _Found) -> None:
    """Records a model's errors on one grid; `coarse` is what it predicts on its own."""
    record = partial(found.record, case, name, job.points, test)
    for way in case.upsamplings(job.points):
        record(f"low + {way}", case.upsample(coarse, job.points, test, way))
    fine = predict(model, case, test) if test != job.points else coarse
    record("direct", fine)
    if test == job.points:
        return
    refined = predict(model, case, test, source=job.points)
    record("low-passed input", refined)
    if has_local_kernels(model):
        with undilated(model):
            record("direct, undilated", predict(model, case, test))
    for kind, carried in (("fine input", fine), ("low-passed input", refined)):
        error = _mismatch(case, carried, coarse, test, job.points)
        if error is not None:
            found.equivariance.setdefault(f"{name}|{job.points}|{test}|{kind}", []).append(error)


def predict(model: Any, case: Case, points: int, *, source: int | None = None, samples: int | None = None) -> Any:
    """(samples, 1, *grid) float64: the model on the test coefficients of the grid with that many points.

    source : take the coefficient from this coarser grid, carried up linearly (between phases it is neither: only the
        grid of the network changes, not what it is told)
    samples : the number of test fields, the first ones; by default all
    """
    import torch

    from sciops.models.apply import apply_model, placed_for
    from sciops.resampling import resample

    grid = case.grid(points)
    a = case.test(points if source is None else source)[0][:samples]
    if source is not None:
        wall = {} if grid.reaches_walls else {"extrapolate": True}
        a = resample(a, case.grid(source), grid, "linear", **wall)
    with torch.no_grad():
        batches = [apply_model(model, placed_for(model, part), grid) for part in a.split(BATCH)]
    return torch.cat(batches).double()


def variants(config: ResolutionShiftConfig, case: Case, job: Any, model: Any) -> dict[str, Any]:
    """The model under its arm's name and, where the config asks for it, its average over transposition."""
    from sciops.models import SymmetryAveraged

    named = {job.arm: model}
    if config.symmetrize:
        named[f"{job.arm} (sym)"] = SymmetryAveraged(model, "transpose", symmetry=case.splits[job.points].test.symmetry)
    return named


def load_trained(config: ResolutionShiftConfig, case: Case, job: Any) -> tuple[Any, dict[str, Any]]:
    """(the trained model in evaluation mode, applied as its arm says; what its training reported)."""
    from sciops.models import Latent, load_model

    folder, arm = config.output / job.folder, ARMS[config.recipe][job.arm]
    model: Any = load_model(folder / "model").eval()
    if arm.latent:
        model = Latent(model, case.grid(job.points))
    if arm.dealiased > 1:
        model = Dealiased(model, arm.dealiased)
    if arm.same_period:
        model = SamePeriod(model, case.grid(job.points))
    if arm.zero_wall:
        model = ZeroWall(model)
    return model.eval(), read_sealed(folder / "results.json")


def has_local_kernels(model: Any) -> bool:
    """Whether the model holds 3×3 kernels that spread with the grid."""
    return any(getattr(m, "dilate", False) and m.config["options"]["local"] for m in model.modules())


@contextmanager
def undilated(model: Any) -> Iterator[None]:
    """The model with its local kernels one point wide, as they were on the training grid, while the block runs."""
    spread = [m for m in model.modules() if getattr(m, "dilate", False)]
    for module in spread:
        module.dilate = False
    try:
        yield
    finally:
        for module in spread:
            module.dilate = True


def _references(config: ResolutionShiftConfig, case: Case) -> _Found:
    found = _Found()
    record = partial(found.record, case, "reference")
    for test in config.test_grids:
        if test in case.native:
            record(test, test, "native", _tensor(case.native[test]))
        for train in config.train_grids:
            if train >= test:
                continue
            truth = case.test(train)[1]
            for way in case.upsamplings(train):
                record(train, test, f"truth + {way}", case.upsample(truth, train, test, way))
                if train in case.native:
                    solved = _tensor(case.native[train])
                    record(train, test, f"native + {way}", case.upsample(solved, train, test, way))
    return found


def _tensor(u: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(np.ascontiguousarray(u))[:, None]


def _mismatch(case: Case, fine: Any, coarse: Any, test: int, train: int) -> np.ndarray | None:
    """‖R F(a_S) − F(a_s)‖ / ‖F(a_s)‖ per sample, R the nodal restriction; None where the grids are not nested."""
    if not nested(case, train, test):
        return None
    return relative_l2(restrict(fine, case.grid(test), case.grid(train)), coarse).numpy()


def _left_out(config: ResolutionShiftConfig, case: Case, job: Any, test: int) -> bool:
    """No whole number of points may end the period; dealiasing costs so much that it is for the next grid alone."""
    arm = ARMS[config.recipe][job.arm]
    next_finer = min((n for n in config.test_grids if n > job.points), default=job.points)
    return (arm.same_period and not nested(case, job.points, test)) or (arm.dealiased > 1 and test > next_finer)


def nested(case: Case, coarse: int, fine: int) -> bool:
    """Whether the points of one grid of the dataset are among those of another."""
    return case.grid(coarse).strides_in(case.grid(fine)) is not None


def _split(key: str) -> tuple[str, int, int, str]:
    arm, train, test, way = key.split("|")
    return arm, int(train), int(test), way


def _spread(errors: np.ndarray) -> dict[str, Any]:
    """Mean over samples, then the spread over seeds; and the median over both."""
    return asdict(spread(errors.mean(axis=1))) | {"median": float(np.median(errors))}


def _row(key: str, errors: np.ndarray, squared: np.ndarray) -> dict[str, Any]:
    named = dict(zip(("arm", "train", "test", "way"), _split(key)))
    return named | {"relative_l2": _spread(errors), "relative_mse": _spread(squared)}


def _causes(config: ResolutionShiftConfig, arrays: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """The loss of direct inference, its error minus that of low + sine, of every arm against that of its base.

    The base of an arm that shares weights is the arm they were trained for, that of another arm the first one; negative
    where the arm loses less.
    """
    rows = []
    for train in config.train_grids:
        for test in config.test_grids:
            for arm in config.arms:
                owner = weights_of(config.recipe, arm)
                base = owner if owner != arm and owner in config.arms else config.arms[0]
                keys = [f"{one}|{train}|{test}|{way}" for one in (arm, base) for way in ("direct", "low + sine")]
                if test <= train or arm == base or not all(key in arrays for key in keys):
                    continue
                direct, low, base_direct, base_low = (arrays[key] for key in keys)
                verdict = paired_verdict(direct - low, base_direct - base_low)
                about = {"arm": arm, "base": base, "train": train, "test": test}
                losses = {"loss": float((direct - low).mean()), "base_loss": float((base_direct - base_low).mean())}
                rows.append(about | losses | asdict(verdict))
    return rows


def _verdicts(arrays: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Direct against low + every way up, for every model and pair of different grids; negative: direct is better."""
    rows = []
    for key, errors in arrays.items():
        arm, train, test, way = _split(key)
        if arm == "reference" or train == test or not way.startswith(("low + ", "direct, ")):
            continue
        verdict = paired_verdict(arrays[f"{arm}|{train}|{test}|direct"], errors)
        rows.append({"arm": arm, "train": train, "test": test, "against": way} | asdict(verdict))
    return rows
