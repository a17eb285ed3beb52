"""The generation study measures what it says, and refuses a pipeline whose file or solutions are not right."""

import json

import numpy as np
import pytest

from data_gen import darcy as generator
from studies import generation_speed as study
from studies.generation_speed import peer
from studies.kit import solver_cases
from studies.solver_speed.peers import with_spsolve

pytest.importorskip("pyamg")
pytest.importorskip("numba")
TINY = study.Config(size=33, samples=4, peer_samples=2, rounds=1, compressions=(1,), compile=False)


def test_the_peer_assembles_the_same_matrix_as_another_study():
    a = solver_cases.fields("12/3", 17, 1, 0)[0]
    (mine, b), (other, c) = peer.matrix_of(a), solver_cases.matrix_of(a)
    assert abs(mine - other).max() <= 1e-15 * abs(other).max() and np.array_equal(b, c)
    u, rho = peer.solve(a, 1e-8)
    exact = with_spsolve(other.tocsc(), c, 0.0).reshape(15, 15)
    np.testing.assert_allclose(u[1:-1, 1:-1], exact, rtol=0, atol=1e-7 * exact.max())
    assert rho <= 1e-8 and study._residual(a, u) == rho


def test_a_small_run_leaves_its_numbers(tmp_path):
    results = study.run(study.replace(TINY, output=tmp_path))
    assert results["equality"]["difference"] < 1e-7
    assert max(results["equality"]["residual, sciops"], results["equality"]["residual, pyamg"]) <= 1.01e-8
    seconds = results["pipelines"]["all_seconds"]
    expected = seconds["pyamg, 2 cores"][0] / seconds["sciops, 2 cores"][0]
    np.testing.assert_allclose(results["pipelines"]["faster"]["median"], expected, rtol=1e-12)
    phases = results["phases"]
    np.testing.assert_allclose(phases["solver_share"], phases["seconds"]["solving"] / phases["seconds"]["whole"])
    plain, packed = (row["bytes"] for row in results["compression"])
    assert packed < plain
    saved = json.loads((tmp_path / "results.json").read_text())
    assert saved["targets"] == results["targets"] and len(saved["targets"]) == 3
    assert (tmp_path / "figures" / "generation_speed.png").stat().st_size > 10_000
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_dir()) == ["figures"]


@pytest.mark.parametrize("broken", ["file", "solution"])
def test_what_is_not_equal_ends_the_run(tmp_path, monkeypatch, broken):
    coefficients, solve = generator.coefficients, peer.solve
    calls = []

    def other(config, grid, ranges):
        calls.append(ranges)
        a = coefficients(config, grid, ranges)
        return a + (len(calls) > TINY.samples)  # after the generator has made its samples

    if broken == "file":
        monkeypatch.setattr(generator, "coefficients", other)
    else:
        monkeypatch.setattr(peer, "solve", lambda a, tol: (1.001 * solve(a, tol)[0], 0.0))
    with pytest.raises(RuntimeError, match="does not hold|not read back"):
        study.run(study.replace(TINY, output=tmp_path))
