"""Equality of a device with the CPU: every case runs, and a difference, a wrong place and an error are each seen."""

import json

import pytest
import torch

from sciops.mixers import MIXERS
from sciops.models import MODELS
from studies import device_equality as study
from studies.device_equality import cases


def test_every_model_and_mixer_has_a_case():
    names = set(cases.CASES)
    assert set(MODELS) <= names
    assert all(any(name.startswith(f"mixer {mixer}") for name in names) for mixer in MIXERS)


def test_a_run_of_some_cases_is_written(tmp_path):
    some = ("fno", "mixer multipole", "solver: darcy", "solver: burgers", "resample: fourier")
    results = study.run(study.Config(cases=some, output=tmp_path, threads=1))
    assert [row["case"] for row in results["rows"]] == list(some) and all(row["equal"] for row in results["rows"])
    saved = json.loads((tmp_path / "results.json").read_text())
    assert saved["targets"][0]["met"] and (tmp_path / "figures" / "device_equality.png").stat().st_size > 5_000


def test_differences_and_errors_end_with_status_one(tmp_path, monkeypatch):
    calls = []

    def drifting(device):
        calls.append(device)
        return [torch.ones(3, dtype=torch.float64) * (1 + 1e-9 * len(calls))]

    def failing(device):
        raise ValueError("no kernel")

    monkeypatch.setitem(cases.CASES, "drifting", cases.Case(drifting))
    monkeypatch.setitem(cases.CASES, "failing", cases.Case(failing))
    with pytest.raises(SystemExit, match="not as on the CPU: drifting, failing"):
        study.run(study.Config(cases=("drifting", "solver: wave", "failing"), output=tmp_path, threads=1))
    rows = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert [row["equal"] for row in rows] == [False, True, False] and "no kernel" in rows[2]["error"]


@pytest.mark.parametrize(
    "there, words",
    [
        (torch.ones(3), "float32 there"),
        (torch.ones(2, dtype=torch.float64), r"\(2,\)"),
        (torch.ones(3, dtype=torch.float64, device="meta"), "lies on meta"),
    ],
)
def test_another_place_shape_or_type_is_an_error(monkeypatch, there, words):
    both = [torch.ones(3, dtype=torch.float64), there]
    monkeypatch.setitem(cases.CASES, "odd", cases.Case(lambda device: [both.pop(0)]))
    with pytest.raises(RuntimeError, match=words):
        cases.difference("odd", "cpu")


def test_zero_has_no_relative_difference(monkeypatch):
    both = [torch.zeros(3), torch.ones(3)]
    monkeypatch.setitem(cases.CASES, "zero", cases.Case(lambda device: [both.pop(0)]))
    with pytest.raises(RuntimeError, match="not zero there"):
        cases.difference("zero", "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_a_device_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(ValueError, match="device='cuda': there is no CUDA device here"):
        study.run(study.Config(device="cuda", output=tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.gpu
@pytest.mark.parametrize("case", cases.CASES)
def test_on_a_gpu_as_on_the_cpu(case):
    assert cases.difference(case, "cuda") <= cases.largest_allowed(case)
