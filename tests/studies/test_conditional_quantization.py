"""The study of conditional quantization: its problems have the laws they state, and a small run says everything."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from sciops.runs import plain
from sciops.uncertainty import Law
from sciops.uncertainty.distances import per_sample
from studies import conditional_quantization as study
from studies.conditional_quantization.arms import build, count, width_of
from studies.conditional_quantization.cases import (
    QUADRANTS,
    bump_coefficient,
    case_of,
    data_of,
    mirrored,
    pooled,
    pressure,
    weight_of_left,
)
from studies.conditional_quantization.training import ideal_sampler, matched, weights_record

CONFIG = study.Config(
    cases=("mirror", "sensors"),
    arms=("quantized", "flow"),
    steps=8,
    width=4,
    rates=(1e-2,),
    fields=(64, 64),
    sensor_fields=(24, 16),
    points=16,
    bank=60,
    seeds=(0,),
    workers=1,
)


def mirror(test: int = 64):
    return case_of("mirror", 64, test, CONFIG.points, CONFIG.bank)


def sensors():
    return case_of(*data_of("sensors", CONFIG))


def test_the_pressure_solves_its_equation():
    k = bump_coefficient((np.arange(400) + 0.5) / 400, np.array([0.2, 0.3]), np.array([0.7, 1.6]))
    u = pressure(k)
    assert np.abs(u[:, [0, -1]]).max() < 1e-14 and (u[:, 1:-1] > 0).all()
    flux = k * np.diff(u, axis=1) * 400
    np.testing.assert_allclose(np.diff(flux, axis=1) * 400, -1, rtol=1e-8)
    np.testing.assert_allclose(pressure(np.ones((1, 8)))[0], (lambda x: x * (1 - x) / 2)(np.arange(9) / 8), atol=1e-15)


def test_the_mirror_image_has_the_same_input_and_both_are_modes_with_known_weights():
    case = mirror()
    x, y, law = case.splits.test.x, case.splits.test.y, case.law
    assert case.facts["middle_difference"] < 1e-14 and case.facts["pressure_difference"] > 0.01
    torch.testing.assert_close(x, x.flip(-1), rtol=0, atol=1e-7)
    torch.testing.assert_close(law.points[:, 0], law.points[:, 1].flip(-1), rtol=0, atol=1e-12)
    nearest = (law.points - y.double()[:, None]).abs().amax((2, 3)).min(1).values
    assert float(nearest.max()) < 1e-6
    random = np.random.default_rng(0)
    depth = random.uniform(0.7, 1.6, 4000)
    assert 0.2 <= weight_of_left(depth).min() and weight_of_left(depth).max() <= 0.8
    both = case.splits.train.y, case.splits.validation.y
    left = torch.cat(both)[..., :16].amin((1, 2)) < torch.cat(both)[..., 17:].amin((1, 2))
    assert 0.3 < float(left.float().mean()) < 0.7


def test_the_levels_of_the_mean_and_of_ideal_samples_are_those_of_the_formula():
    case, unit = mirror(256), mirror(256).facts["apart"]
    mean = Law(case.law.mean[:, None], torch.ones(256, 1).double(), None, case.grid)
    y = case.splits.test.y.double()
    expected = float(
        (case.law.weights * per_sample((case.law.points - mean.points).square(), case.grid, start=2)).sum(1).mean()
    )
    assert case.facts["mean_level"] == pytest.approx(expected, rel=1e-12)
    drawn = ideal_sampler(case, 2, 3)
    measured = np.mean(drawn["nearest"]) / unit
    assert measured == pytest.approx(case.facts["ideal"][2] / unit, rel=0.2)
    assert case.facts["ideal"][2] == pytest.approx(case.facts["mean_level"], rel=1e-12)  # w(1−w)² + (1−w)w² = w(1−w)
    assert case.facts["ideal"][8] < 0.2 * case.facts["ideal"][2] and len(y) == 256


def test_the_exact_law_has_no_distance_to_itself_and_its_own_weights():
    pytest.importorskip("scoringrules")
    pytest.importorskip("ot")
    from studies.conditional_quantization.training import scores

    for case in (mirror(), sensors()):
        found = scores(case, case.law)
        assert max(found["w2"]) < 1e-6 and max(found["mean_error"]) < 1e-9 and max(found["std_error"]) < 1e-6
        torch.testing.assert_close(matched(case, case.law), case.weights)
    few = mirror()
    assert weights_record(few, few.law)["distance"] == pytest.approx(0, abs=1e-12)


def test_pooled_readings_do_not_tell_the_quadrant():
    case = sensors()
    images = case.law.points[:, :4, 0]
    for q in range(4):
        np.testing.assert_array_equal(images[:, q], mirrored(images[:, 0].numpy(), q))
        np.testing.assert_allclose(pooled(images[:, q].numpy()), pooled(images[:, 0].numpy()), atol=1e-15)
    assert case.facts["effective_bank"] > 1 and case.splits.train.x.shape == (24, 4, 17, 17)
    torch.testing.assert_close(case.law.weights[:, :4] / case.law.weights[:, :4].sum(1, keepdim=True), case.weights)
    assert sum(QUADRANTS) == pytest.approx(1)


def test_the_start_of_a_flow_and_half_of_a_digit():
    flow = case_of("vorticity", 4, 16, 16, 8)
    later, start = flow.splits.test.x, flow.splits.test.y
    assert later.shape == start.shape == (16, 1, 16, 16) and float(later.square().mean()) < float(start.square().mean())
    pytest.importorskip("sklearn")
    digits = case_of("digits", 40, 16, 16, 8)
    assert not digits.splits.test.x[..., :4].any() and torch.equal(
        digits.splits.test.x[..., 4:], digits.splits.test.y[..., 4:]
    )
    assert digits.law.points.shape == (16, 20, 1, 8, 8)
    with pytest.raises(ValueError, match="digits asked for"):
        case_of("digits", 4000, 16, 16, 8)


def test_arms_have_equal_parameters():
    wanted = count(build(sensors(), "quantized", 0, 16))
    for arm in ("ensemble", "flow", "quantiles"):
        own = count(build(sensors(), arm, 0, width_of(sensors(), arm, 16)))
        assert 0.75 < own / wanted < 1.3, (arm, own / wanted)


def test_a_small_run_writes_tables_and_figures(tmp_path, capsys):
    for package in ("scoringrules", "ot", "sklearn"):
        pytest.importorskip(package)
    config = replace(CONFIG, output=tmp_path)
    results = study.run(config)
    said = capsys.readouterr().out
    assert "too few seeds" in said and "ideal samples" in said and "stated weight" in said and "equal weights" in said
    names = {"scores.png", "calibration.png", "modes_mirror.png", "modes_sensors.png"}
    assert names == {path.name for path in (tmp_path / "figures").iterdir()}
    assert json.loads((tmp_path / "report.json").read_text())["answer"].startswith("By the energy score")
    cells = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    assert plain(study.run(config)["runs"]) == plain(results["runs"])
    assert cells == {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}  # read back
    for wrong in ({"cases": ("heat",)}, {"arms": ("flow",)}, {"arms": ("quantized", "vae")}):
        with pytest.raises(ValueError, match="expected"):
            study.run(replace(config, **wrong))
