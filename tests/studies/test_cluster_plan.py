"""The plan's arithmetic, the simulated workers on a real scheduler, and tables and figure from made-up measurements."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("distributed")
pytest.importorskip("cryptography")

from studies import cluster_plan as study
from studies.cluster_plan import costs, planning, report, workers
from studies.cluster_plan.planning import Costs, Machine

COSTS = Costs(
    sample_seconds=0.02,
    sample_bytes=1e6,
    scheduler_part=1e-3,
    scheduler_worker=1e-3,
    assembly_part=1e-3,
    assembly_byte=1e-9,
)
MACHINE = Machine(cores=64, shared_rate=20e9, node_rate=2e9, files=100_000)


def test_a_law_is_recovered_and_checked_on_the_largest_grid():
    exact = [2e-3 + 3e-7 * n**2 for n in (43, 85, 211, 421)]
    found = planning.checked_law([421, 43, 85, 211], [exact[-1], *exact[:3]])
    assert found["fixed"] == pytest.approx(2e-3) and found["per_node"] == pytest.approx(3e-7)
    assert found["largest"] == 421 and abs(found["error"]) < 1e-9
    assert planning.checked_law([43, 85, 211, 421], [*exact[:3], 2 * exact[3]])["error"] == pytest.approx(-0.5)
    with pytest.raises(ValueError, match="two grids"):
        planning.law([43], [1.0])


def test_the_laws_of_the_assembly_are_recovered():
    rows = [{"parts": p, "bytes": b, "seconds": 2e-3 * p + 1e-9 * b} for p, b in ((200, 1e4), (800, 4e4), (16, 1e9))]
    assert planning.assembly_law(rows) == (pytest.approx(2e-3), pytest.approx(1e-9))


def test_stages_of_a_generation():
    plan = planning.generation(COSTS, MACHINE, samples=1_000_000, chunk=10, nodes=4)
    assert plan["workers"] == 256 and plan["parts"] == 100_000 and plan["bytes"] == 1e12
    assert plan["core_hours"] == pytest.approx(20_000 / 3600)
    assert plan["hours"]["solving"] == pytest.approx(20_000 / 256 / 3600)
    assert plan["hours"]["scheduler"] == pytest.approx(100 / (1 - 0.256) / 3600)
    assert plan["hours"]["writing"] == pytest.approx(1e12 / 8e9 / 3600)  # four nodes at 2 GB/s each
    assert plan["slowest"] == "scheduler" and plan["zarr_hours"] == plan["hours"]["scheduler"]
    assert plan["assembly_hours"] == pytest.approx((100 + 1000) / 3600)
    few = planning.generation(COSTS, MACHINE, samples=100, chunk=50, nodes=4)
    assert few["hours"]["solving"] == pytest.approx(1 / 3600)  # two parts keep two workers at work
    assert planning.generation(COSTS, MACHINE, samples=10**6, chunk=10, nodes=16)["zarr_hours"] == np.inf
    with pytest.raises(ValueError, match="chunk=0"):
        planning.generation(COSTS, MACHINE, samples=1, chunk=0, nodes=1)


def test_at_a_limit_two_stages_take_equally_long():
    free = Costs(**vars(COSTS) | {"scheduler_worker": 0.0})
    rows = {row["limit"]: row for row in planning.limits(free, MACHINE, samples=10**6, chunk=10)}
    for limit, stage in (("scheduler", "scheduler"), ("writing", "writing")):
        one_core = Machine(cores=1, shared_rate=20e9, node_rate=20e9)
        workers_then = round(rows[limit]["workers"])
        plan = planning.generation(free, one_core, samples=10**6, chunk=10, nodes=workers_then)
        assert plan["hours"][stage] == pytest.approx(plan["hours"]["solving"], rel=0.01)
    assert rows["files in a folder"]["workers"] == np.inf
    first = planning.limits(COSTS, MACHINE, samples=10**6, chunk=5)[0]
    assert first["limit"] == "files in a folder" and "200,000 parts" in first["why"]


def test_the_least_chunk_takes_half_of_the_scheduler():
    chunk = planning.least_chunk(COSTS, workers=200)
    load = lambda chunk: 200 * (COSTS.scheduler_part / (chunk * COSTS.sample_seconds) + COSTS.scheduler_worker)  # noqa: E731
    assert load(chunk) <= 0.5 < load(chunk - 1)
    with pytest.raises(ValueError, match="1000 workers take 100%"):
        planning.least_chunk(COSTS, workers=1000)


def test_an_epoch_reads_every_byte_once():
    found = planning.training(MACHINE, step_seconds=2.0, batch=4, sample_bytes=1e6, data_bytes=1e12, processes=128)
    assert found["samples"] == 10**6 and found["steps"] == -(-(10**6) // 512)
    assert found["rate"] * found["hours"] * 3600 == pytest.approx(1e12, rel=1e-3)
    assert found["slowest"] == "steps" and found["most_processes"] == pytest.approx(20e9 / 2e6)


def test_draws_have_the_mean_and_the_shares_that_were_asked_for():
    case = workers.Case(
        parts=20_000, samples=1, seconds=2.0, spread=0.3, failures=0.05, stragglers=0.1, slower=4.0, restart=0
    )
    assert case.durations().mean() == pytest.approx(2.0 * (1 + 0.1 * 3), rel=0.02)
    assert case.doomed().mean() == pytest.approx(0.05, rel=0.15)
    assert np.array_equal(case.durations(), case.durations())
    times = np.arange(1000) / 50
    assert workers.sustained(list(times)) == pytest.approx(50)


def test_workers_that_die_lose_no_part(tmp_path):
    case = workers.Case(
        parts=40, samples=3, seconds=0.02, spread=0.1, failures=0.1, stragglers=0.1, slower=3.0, restart=0.1
    )
    dead = int(case.doomed().sum())
    assert dead >= 2
    with workers.simulator(6) as simulator:
        found = simulator.run(case, tmp_path)
    assert found["equal"] and len(found["deaths"]) == dead
    assert {index for _, index in found["made"]} == set(range(40)) and found["attempts"] >= 40 + dead
    assert found["most_attempts"] >= 2 and not list(tmp_path.glob("*.parts"))


def test_saved_bytes_grow_with_the_batch_and_hold_the_activations():
    network = {"width": 4, "depth": 2, "modes": 3}
    parameters, one = costs.saved_bytes(12, network, 1)
    _, three = costs.saved_bytes(12, network, 3)
    assert three == pytest.approx(3 * one, rel=0.2) and one >= 4 * 4 * 2 * 12**2 and parameters > 0


def _measured():
    samples = [
        {"n": n, "samples": 8, "seconds": 2e-3 + 1e-7 * n**2, "spread": 0.1, "clock": 1.0, "peak": 10**6 + 200 * n**2}
        for n in (43, 85, 211, 421)
    ]
    stored = [
        {"n": n, "dtype": dtype, "gzip": level, "bytes": size * n**2, "raw": 2 * size * n**2, "seconds": 1e-3}
        for n in (43, 421)
        for dtype, size in (("float32", 4), ("float64", 8))
        for level in (None, 4)
    ]
    steps = [
        {"n": n, "batch": 4, "seconds": 1e-4 * n**2, "clock": 1.0, "formula": 9 * n**2, "peak": 10 * n**2}
        for n in (43, 85, 211)
    ]
    scaling = [
        {"work": "samples", "scaling": kind, "processes": count, "seconds": seconds, "clock": seconds}
        for kind, count, seconds in (("strong", 1, 4.0), ("strong", 2, 2.5), ("weak", 1, 4.0), ("weak", 2, 5.0))
    ]
    run = {
        "workers": 200,
        "parts": 100,
        "part_seconds": 1.0,
        "seconds": 2.0,
        "made": [(i / 50, i) for i in range(100)],
        "deaths": [0.5, 1.0],
        "attempts": 102,
        "made_twice": 0,
        "asked_rate": 200.0,
        "rate": 50.0,
        "busy_share": 0.25,
        "process_per_part": 4e-3,
        "scheduler_per_part": 2e-3,
        "scheduler_seconds": 0.2,
        "assembly_seconds": 0.1,
    }
    assembly = [{"parts": p, "bytes": b, "seconds": 1e-3 * p + 1e-9 * b} for p, b in ((200, 1e4), (16, 1e9))]
    measured = {"samples": samples, "stored": stored, "steps": steps, "scaling": scaling, "assembly": assembly}
    return measured | {"simulated": {"idle": 0.1, "runs": [run]}}


def test_tables_and_figure_say_what_was_measured(tmp_path, capsys):
    measured = _measured()
    results = measured | {"plan": study.plan(study.Config(), measured)}
    assert results["plan"]["costs"]["scheduler_part"] == 2e-3
    report.show(results)
    said = capsys.readouterr().out
    assert "what breaks first" in said and "200 simulated workers" in said and "0.80" in said
    report.draw(results, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_two_grids_are_too_few(tmp_path):
    with pytest.raises(ValueError, match="--train-grids 43 85: expected at least three"):
        study.run(study.Config(train_grids=(43, 85), output=tmp_path))
