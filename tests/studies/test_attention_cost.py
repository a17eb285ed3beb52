"""The cost study checks what it times, refuses layers that are wrong, and leaves its numbers."""

import json
import math

import pytest
import torch

from sciops.mixers import FullAttention, MultipoleAttention
from studies import attention_cost as study
from studies.attention_cost import arms, report

SMALL = study.Config(
    channels=8,
    windows=(2, 4),
    ratio_sizes=(16,),
    curve=(16, 32),
    large=64,
    full_sizes=(16,),
    odd_grids=((9, 14),),
    rounds=1,
    threads=1,
)


def test_the_plain_layers_are_full_attention_where_one_window_holds_the_grid():
    torch.manual_seed(0)
    ours = FullAttention(8, heads=arms.HEADS).double()
    x = torch.randn(2, 6, 6, 8, dtype=torch.float64)
    for plain in (
        arms.PlainAttention(8, 6),
        arms.PlainAttention(8, None),
        arms.PlainAttention(8, None, materialise=True),
    ):
        plain.double().load_state_dict(ours.state_dict())
        assert (plain(x) - ours(x)).abs().max() < 1e-13


def test_a_wrong_layer_ends_the_run(monkeypatch):
    layer = MultipoleAttention(8, heads=arms.HEADS, window=4).double()

    def reference(x):
        return arms.multipole_reference(layer, x)

    assert study.compare("right", layer, reference, (9, 14), SMALL) < 1e-13
    forward = MultipoleAttention.forward
    monkeypatch.setattr(MultipoleAttention, "forward", lambda self, x: forward(self, x) * (1 + 1e-9))
    with pytest.raises(RuntimeError, match="wrong on 9×14: differs"):
        study.compare("wrong", layer, reference, (9, 14), SMALL)


def test_exponents_are_those_of_the_powers():
    assert report.exponent({"8": 3.0, "16": 12.0, "64": 3.0 * 8**2}) == pytest.approx(1.0)
    assert report.exponent({"8": 2.0, "16": 2.0 * 16}) == pytest.approx(2.0)


def test_a_small_run_leaves_its_numbers(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        study.timing, "peak_memory", lambda function, name, channels, sizes, *rest: 1000 * sizes[0] ** 2
    )
    config = study.Config(**{**vars(SMALL), "output": tmp_path})
    results = study.run(config)
    assert max(row["difference"] for row in results["equality"]) < 1e-11
    by_name = {row["what"]: row for row in results["targets"]}
    row = results["one_level"][0]
    assert by_name["multipole over its finest level alone, w=2, 16²"]["value"] == row["over_finest"]["median"]
    assert row["over_plain"]["median"] == pytest.approx(row["seconds"]["multipole"] / row["seconds"]["plain"])
    assert by_name["exponent of memory, multipole w=4, 32²…64²"]["value"] == pytest.approx(1.0)
    assert by_name["memory, scores materialised over multipole, 16²"]["met"] is False
    assert all(math.isfinite(row["per_cell"]) for row in results["odd"])
    saved = json.loads((tmp_path / "results.json").read_text())
    assert saved["curve"] == results["curve"] and saved["threads"] == 1
    assert (tmp_path / "figures" / "attention_cost.png").stat().st_size > 10_000
    assert "missed" in capsys.readouterr().out


def test_memory_is_that_of_the_step():
    step = arms.prepared("full, scores materialised", 8, (8, 8), 1, 0)
    assert len(step()) == 1 + len(list(arms.ARMS["full, scores materialised"](8).parameters()))
