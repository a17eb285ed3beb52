"""Draws with given signs: the law, exactness against rejection, what a run leaves, what is refused."""

import numpy as np
import pytest

from sciops import Grid
from sciops.random_fields import gaussian_random_field, normal_coefficients
from studies import coarse_coefficient as study
from studies.coarse_coefficient.law import Law
from studies.coarse_coefficient.sampler import trajectory


def test_the_law_is_that_of_the_generator():
    law = Law(22, 48)
    x = normal_coefficients(48, 2, seed=3, number=7).ravel()
    g = gaussian_random_field(Grid((22, 22)), 1, tau=3.0, alpha=2.0, modes=48, seed=3, first=7)[0].ravel()
    assert np.allclose(law.apply(x), g, rtol=0, atol=1e-13)
    y = np.random.default_rng(0).standard_normal(22 * 22)
    assert np.dot(law.apply(x), y) == pytest.approx(np.dot(x, law.adjoint(y)), rel=1e-12)
    assert np.allclose(law.gram[5], law.apply(law.adjoint(np.eye(22 * 22)[5])), rtol=0, atol=1e-15)


def test_a_start_has_the_signs_and_a_trajectory_keeps_them():
    law, rng = Law(9, 17), np.random.default_rng(1)
    signs = np.where(law.apply(rng.standard_normal(289)) >= 0, 1.0, -1.0)
    x = law.start(signs)
    assert (np.sign(law.apply(x)) == signs).all()
    for _ in range(20):
        v = rng.standard_normal(289)
        y, bounces = trajectory(x, v, signs, law.apply, law.adjoint, law.gram)
        assert (np.sign(law.apply(y)) == signs).all() and bounces > 0
        x = y


def test_reflections_keep_the_energy_and_are_undone_by_turning_back():
    """A trajectory that bounces is reversible: from its end, with the velocity turned round, it leads to its start."""
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((6, 4))
    x = rng.standard_normal(4)
    signs = np.where(rows @ x >= 0, 1.0, -1.0)
    given = (signs, lambda x: rows @ x, lambda y: rows.T @ y, rows @ rows.T)
    v = rng.standard_normal(4)
    step = 1e-6  # the velocity at the end, by the difference of two ends
    end, bounces = trajectory(x, v, *given, 2.0)
    later, again = trajectory(x, v, *given, 2.0 + step)
    assert bounces == again > 0
    speed = (later - end) / step
    assert end @ end + speed @ speed == pytest.approx(x @ x + v @ v, rel=1e-5)
    back, _ = trajectory(end, -speed, *given, 2.0)
    assert np.allclose(back, x, atol=1e-4)


def test_draws_are_those_of_rejection():
    """Means and second moments of a Gaussian in a wedge, beside those of draws that were thrown away outside."""
    rows = np.array([[1.0, 0.2, 0.0], [-0.9, 1.0, 0.3]])
    signs = np.array([1.0, 1.0])
    rng = np.random.default_rng(3)
    cloud = rng.standard_normal((400_000, 3))
    cloud = cloud[((cloud @ rows.T) > 0).all(1)]
    x, drawn = np.array([0.5, 1.0, 0.0]), []
    for _ in range(20_000):
        x, _ = trajectory(x, rng.standard_normal(3), signs, lambda x: rows @ x, lambda y: rows.T @ y, rows @ rows.T)
        drawn.append(x)
    drawn = np.array(drawn)
    assert np.abs(drawn.mean(0) - cloud.mean(0)).max() < 0.03
    assert np.abs(drawn.T @ drawn / len(drawn) - cloud.T @ cloud / len(cloud)).max() < 0.05


def test_a_point_without_the_signs_is_refused():
    with pytest.raises(ValueError, match="1 of 2 signs are not those of the point"):
        trajectory(np.ones(2), np.ones(2), np.array([1.0, -1.0]), lambda x: x, lambda y: y, np.eye(2))


def test_a_small_run_leaves_its_numbers_and_resumes(tmp_path, capsys, monkeypatch):
    config = study.Config(sizes=(9,), finest=33, modes=24, fields=3, settling=2, draws=8, workers=1, output=tmp_path)
    results = study.run(config)
    (row,) = results["rows"]
    assert 0 < row["least"] < row["one draw"]["mean"] and row["mean of draws"]["mean"] < row["one draw"]["mean"]
    over = row["over native"]["least"]
    assert over["low"] < over["value"] == row["least"] / row["native solve"]["mean"] < over["high"]
    assert set(row["means"]) == {"1", "2", "4", "8"} and not results["targets"]
    assert "least, from the spread" in capsys.readouterr().out
    assert (tmp_path / "figures" / "coarse_coefficient.png").stat().st_size > 10_000
    monkeypatch.setattr(study, "one_field", None)  # every field is there
    assert study.run(config)["rows"] == results["rows"]


@pytest.mark.parametrize(
    "options, said",
    [
        ({"sizes": (40,)}, "--sizes 40: .* nest in 421"),
        ({"draws": 2}, "--draws 2, --fields 10"),
        ({"fields": 1}, "1"),
        ({"modes": 84}, "--modes 84: expected more than 84"),
    ],
)
def test_what_is_refused(options, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        study.run(study.Config(output=tmp_path, **options))
