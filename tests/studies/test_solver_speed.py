"""The solver study measures what it says: its own matrix, its own checks, and a refusal of wrong solutions."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sciops.grids import Grid
from sciops.pde import darcy
from studies import solver_speed as study
from studies.kit.solver_cases import check, fields, matrix_of
from studies.solver_speed import cold, peers, report


def test_the_study_s_matrix_is_another_assembly_of_the_same_scheme():
    a = np.exp(np.random.default_rng(0).standard_normal((1, 12, 12)))
    A, b = matrix_of(a[0])
    assert abs(A - A.T).max() == 0
    u = np.zeros((1, 12, 12))
    u[0, 1:-1, 1:-1] = peers.with_spsolve(A.tocsc(), b, 0.0).reshape(10, 10)
    assert darcy.residual(a, u)[0] < 1e-13
    rough = np.random.default_rng(1).standard_normal((1, 12, 12))
    mine = np.linalg.norm(b - A @ rough[0, 1:-1, 1:-1].ravel()) / np.linalg.norm(b)
    np.testing.assert_allclose(darcy.residual(a, rough, Grid((12, 12)))[0], mine, rtol=1e-12)


def test_a_wrong_or_unfinished_solution_ends_the_run():
    A, b = matrix_of(fields("12/3", 17, 1, 0)[0])
    u = peers.with_spsolve(A.tocsc(), b, 0.0)
    assert check("spsolve", A, b, u, u, 1e-8) < 1e-12
    with pytest.raises(RuntimeError, match="peer: residual"):
        check("peer", A, b, u * (1 + 1e-6), u, 1e-8)
    with pytest.raises(RuntimeError, match="away from sciops' solution"):
        check("peer", A, b, u, u * (1 + 1e-6), 1e-8)


def test_a_small_run_leaves_its_numbers(tmp_path, capsys):
    pytest.importorskip("pyamg")
    pytest.importorskip("numba")
    small = study.Config(
        size=33,
        samples=2,
        repeats=1,
        growth=(33, 65),
        hard_sizes=(33,),
        hard_samples=1,
        small_sizes=(9,),
        small_samples=20,
        output=tmp_path,
    )
    results = study.run(small)
    constants = [row["constant"] for row in results["order"]]
    assert max(constants) < 1.02 * min(constants)  # error·(n − 1)²: order 2
    assert all(0 < row["minimum"] < row["maximum"] for row in results["maximum_principle"])
    for rows in results["speed"]["rows"].values():
        assert all(row["residual"] <= 1.01 * small.tol for row in rows)
    times = {row["solver"]: row["seconds"] for row in results["speed"]["rows"]["12/3"]}
    ratio = results["speed"]["ratios"]["numba over spsolve, 12/3"]["median"]
    np.testing.assert_allclose(ratio, times["spsolve"] / times["numba"], rtol=1e-12)
    low, high = (
        next(r["seconds"] for r in results["growth"]["rows"] if (r["solver"], r["n"]) == ("numba", n)) for n in (33, 65)
    )
    np.testing.assert_allclose(results["growth"]["exponents"]["numba"], np.log(high / low) / np.log((63 / 31) ** 2))
    by_name = {row["what"]: row for row in results["targets"]}
    assert set(report.TARGETS) < set(by_name)
    assert by_name["numba over spsolve, 12/3"]["met"] == (ratio >= 35.0)
    saved = json.loads((tmp_path / "results.json").read_text())
    assert saved["speed"]["ratios"] == results["speed"]["ratios"]
    assert (tmp_path / "figures" / "solver_speed.png").stat().st_size > 10_000
    assert "missed" in capsys.readouterr().out or all(row["met"] for row in results["targets"])


@pytest.mark.gpu
def test_on_a_device_the_solutions_are_those_of_the_compiled_form():
    pytest.importorskip("numba")
    rows = study.on_device(study.Config(device="cuda", device_sizes=(33,), device_samples=5, repeats=1))
    assert [row["kind"] for row in rows] == ["12/3", "100:1"]
    assert all(row["seconds"] > 0 and row["iterations"] <= 11 and row["bytes_per_unknown"] > 48 for row in rows)


def test_the_first_solve_alone_is_measured_and_shown(tmp_path, capsys, monkeypatch):
    pytest.importorskip("numba")
    taken = [{"cpu_seconds": 20.0, "seconds": 21.0, "functions": {"fill": 5.0, "iterate": 9.0}}]
    taken += [{"cpu_seconds": value, "seconds": value, "functions": {}} for value in (0.5, 0.4, 0.6)]
    starts = iter(taken)
    monkeypatch.setattr(cold, "_first", lambda place: next(starts))
    results = study.run(replace(study.PRESETS["cold"], output=tmp_path))
    assert results["cold"]["cached"] == {"cpu_seconds": 0.5, "seconds": 0.5}
    assert [row["met"] for row in results["targets"]] == [False, True]
    said = capsys.readouterr().out
    assert "iterate 9.0 s, fill 5.0 s" in said and "20.00" in said and (tmp_path / "results.json").exists()
    again = iter([taken[0], taken[0], *taken[2:]])
    monkeypatch.setattr(cold, "_first", lambda place: next(again))
    with pytest.raises(RuntimeError, match="numba did not keep the solver on disk"):
        cold.first_solves()
