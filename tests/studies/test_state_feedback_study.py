"""The state-feedback study keeps its numbers, tells effects from spread, and does not time what is not equal."""

import json
import math

import numpy as np
import pytest
import torch

from studies import state_feedback as study
from studies.kit.through_time.gradients import closeness
from studies.state_feedback.comparisons import EQUAL_TIME, clear_sign, summary, verdicts
from studies.state_feedback.tasks import readings, sensor_task, text_task
from studies.state_feedback.training import train, way_back

ARMS = ("BPTT", "FT-BPTT", "DSF gate", "Highway k = 1")
TINY = dict(batch=4, width=8, depth=1, cell="gru")


@pytest.fixture(autouse=True)
def short_start(monkeypatch):
    """Runs from noise are on the attractor after 40 already, if not as independent of their start as after 100."""
    monkeypatch.setattr("studies.state_feedback.tasks._SETTLE", 40.0)


def config(tmp_path, **options):
    return study.Config(
        **{
            **dict(corpus="python", arms=ARMS, text_lengths=(8,), sensor_lengths=(9,), sensor_steps=(3,), text_steps=3),
            **dict(
                width=8,
                batch=4,
                sequences=8,
                held_out=6,
                seeds=2,
                looks=2,
                timed_lengths=(6,),
                rounds=1,
                rollout_steps=2,
                rollout_frames=3,
                rollout_width=4,
            ),
            **dict(output=tmp_path, **options),
        }
    )


def test_a_small_run_leaves_its_numbers(tmp_path, capsys):
    results = study.run(config(tmp_path))
    assert json.loads((tmp_path / "results.json").read_text())["summary"][0]["arm"] == "BPTT"
    arms = {(row["task"], row["arm"]) for row in results["summary"]}
    assert arms == {(t, a) for t in ("text, T = 8", "sensors, T = 9") for a in (*ARMS, EQUAL_TIME)}
    exact = next(row for row in results["summary"] if row["arm"] == "BPTT")
    assert exact["cosine"] == pytest.approx([1, 1, 1], abs=1e-5)
    shorter = [r for r in results["runs"] if r["arm"] == EQUAL_TIME]
    assert len(shorter) == 4 and all(1 <= r["steps"] <= 3 for r in shorter)
    assert all(math.isfinite(r["test"]) and len(r["history"]) == 3 for r in results["runs"] if r["arm"] != EQUAL_TIME)
    fed = {row["arm"]: row["closeness"][0] for row in results["rollout"]}
    assert fed["BPTT"]["cosine"] == pytest.approx(1) and fed["one step (Λ = 0)"]["cosine"] < 0.9999
    for name in ("loss_against_time", "error_by_arm", "cosine"):
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert (
        "DSF gate *" in printed and "BPTT, Python loop" in printed and "gap to BPTT" in printed or "no gap" in printed
    )
    assert "caillon2025fast" in (tmp_path / "citations.bib").read_text()


def test_an_arm_that_computes_something_else_is_not_timed(tmp_path, monkeypatch):
    from sciops.models.sequences.recurrent import BACKWARDS

    true = BACKWARDS["state_feedback"]

    def wrong(*given, **how):
        outputs, last = true(*given, **how)
        return 1.5 * outputs, last

    monkeypatch.setitem(BACKWARDS, "state_feedback", wrong)
    with pytest.raises(RuntimeError, match="FT-BPTT: the loss is .*, that of BPTT"):
        study.run(config(tmp_path))
    monkeypatch.setitem(BACKWARDS, "state_feedback", true)
    cut = BACKWARDS["truncated"]
    monkeypatch.setitem(BACKWARDS, "truncated", lambda *given, steps, **how: cut(*given, steps=2, **how))
    with pytest.raises(RuntimeError, match="TBPTT with K = T: differs from its reference"):
        study.run(config(tmp_path))


def test_training_of_bptt_learns_and_arms_share_their_start():
    task = sensor_task(12, sequences=16, seed=0, **TINY)
    how = dict(seed=1, steps=60, rate=0.02, truncation=4, looks=3, comparisons=2)
    exact, cut = train(task, "BPTT", **how), train(task, "FT-BPTT", **how)
    assert exact["history"][0]["validation"] == pytest.approx(cut["history"][0]["validation"], rel=1e-5)
    assert exact["test"] < 0.5 * exact["history"][0]["validation"] and not exact["diverged"]
    assert exact["seconds"] == pytest.approx(exact["history"][-1]["seconds"])
    assert cut["closeness"][-1]["cosine"] < 0.9999 < exact["closeness"][-1]["cosine"]


def test_comparing_gradients_leaves_the_model_as_it_was():
    task = sensor_task(12, sequences=8, seed=0, **TINY)
    model, batch = task.model(0), task.draw(torch.Generator().manual_seed(0))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for arm in ("DSF gate", "DSF least squares"):
        closeness(model, task, batch, way_back(arm, 4))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_tasks_ask_for_what_comes_next():
    x, y = text_task("python", length=20, held_out=4, **TINY).validation[0]
    assert torch.equal(x.argmax(-1)[:, 1:], y[:, :-1]) and torch.equal(x.sum(-1), torch.ones(4, 20))
    task = sensor_task(12, sequences=8, seed=0, **TINY)
    x, y = task.test[0]
    assert torch.equal(x[:, 1:], y[:, :-1]) and task.trivial > 0
    runs = readings(3, 40, seed=1)
    assert runs.shape == (3, 40, 4) and 0.5 < runs.std() < 2.5
    assert np.abs(runs[0] - runs[1]).max() > 0.5  # other initial values, other trajectories


def row(arm, seed, test, seconds=1.0, task="t"):
    looks = [{"step": i, "cosine": 1.0, "norm_ratio": 1.0} for i in range(3)]
    return dict(task=task, arm=arm, seed=seed, rate=1e-3, test=test, validation=test, seconds=seconds, diverged=False,
                closeness=looks)  # fmt: skip


def test_effects_are_told_from_spread():
    tests = {
        "BPTT": (1.0, 1.1, 1.2, 1.3, 1.4),
        "FT-BPTT": (2.0, 2.1, 2.2, 2.3, 2.4),
        "DSF gate": (1.5, 1.6, 1.7, 1.8, 1.9),  # always half a unit better
        "DSF linspace": (2.5, 1.6, 2.3, 2.2, 2.5),  # now better, now worse
        "DSF Hutchinson": (2.3, 2.4, 2.5, 2.6, 2.7),
        "DSF identity": (2.3, 2.4, 2.5, 2.6, math.inf),  # one diverged
        EQUAL_TIME: (1.9, 2.0, 2.1, 2.2, 2.3),
    }

    def table(seeds):
        return summary(
            [{"name": "t"}], [row(arm, i, v) for arm, values in tests.items() for i, v in enumerate(values[:seeds])]
        )

    rows = table(5)
    by_arm = {r["arm"]: r for r in rows}
    assert by_arm["DSF gate"]["closed"] == pytest.approx(0.5) and by_arm["BPTT"]["closed"] == pytest.approx(1.0)
    gate = by_arm["DSF gate"]["against_truncation"]
    assert (gate.difference, gate.low, gate.high) == pytest.approx((-0.5,) * 3) and gate.over == "seeds"
    modes = ("gate", "linspace", "Hutchinson", "identity")
    assert [clear_sign(by_arm[f"DSF {m}"]["against_truncation"]) for m in modes] == [-1, 0, 1, 0]
    (line,) = verdicts(rows)
    assert "DSF better than FT-BPTT: gate; DSF worse than FT-BPTT: Hutchinson" in line and "closes 50%" in line
    assert "better than BPTT in equal time: gate" in line and "too few" not in line
    (line,) = verdicts(table(3))
    assert "DSF better than FT-BPTT: none; too few seeds for a verdict: gate, linspace, Hutchinson, identity" in line
    assert "no gap to close" in line


def test_a_gap_within_the_spread_is_none_to_close():
    tests = {"BPTT": (1.0, 2.1), "FT-BPTT": (2.0, 1.2), "DSF gate": (1.1, 1.1), EQUAL_TIME: (2.0, 2.0)}
    rows = summary([{"name": "t"}], [row(arm, i, v) for arm, values in tests.items() for i, v in enumerate(values)])
    assert all(math.isnan(r["closed"]) for r in rows) and "no gap to close" in verdicts(rows)[0]


def test_every_arm_has_its_best_rate():
    runs = []
    for arm, best in (("BPTT", 1e-3), ("FT-BPTT", 2e-3), (EQUAL_TIME, 1e-3)):
        runs += [row(arm, 0, 1.0 + (rate != best)) | {"rate": rate} for rate in (1e-3, 2e-3)]
    assert [r["rate"] for r in summary([{"name": "t"}], runs)] == [1e-3, 2e-3, 1e-3]


def test_refusals(tmp_path):
    with pytest.raises(ValueError, match="--arms BPTT: expected BPTT, FT-BPTT and others of"):
        study.run(study.Config(arms=("BPTT",), output=tmp_path))
    with pytest.raises(ValueError, match="one number for each of --sensor-lengths"):
        study.run(study.Config(sensor_lengths=(64,), output=tmp_path))
    with pytest.raises(ValueError, match="--seeds 0: expected at least 1"):
        study.run(study.Config(seeds=0, output=tmp_path))


def test_the_text_that_is_there_is_found(monkeypatch, capsys):
    def only_python(name):
        if name != "python":
            raise FileNotFoundError(f"{name}: apt-get install {name}")
        return "text"

    monkeypatch.setattr(study, "read_corpus", only_python)
    assert study.find_corpus("auto") == "python"
    assert "apt-get install bible" in capsys.readouterr().out
