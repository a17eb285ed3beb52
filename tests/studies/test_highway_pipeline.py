"""Two processes give the gradients of one, and the study ends where they do not."""

import json

import pytest
import torch
from warm import launch

from studies import highway_pipeline as study

TINY = ["--layers", "4", "--width", "4", "--modes", "2", "--points", "6", "--batch-size", "2"]
TINY += ["--dense-width", "6", "--rows", "4", "--rounds", "1", "--iterations", "0", "3"]


@pytest.mark.slow
def test_two_processes_give_the_gradients_of_one_to_round_off(tmp_path):
    """Both kinds of layers, several k, γ = 0 and 0.3, and exact backpropagation in turns; compared by the study."""
    said = launch("studies.highway_pipeline", [*TINY, "--output", str(tmp_path)], processes=2)
    results = json.loads((tmp_path / "results.json").read_text())
    assert 0 < results["equal_to"] < 1e-12 and "mlp in turns" in said
    for kind in ("mlp", "fno"):
        rows = {row["k"]: row for row in results["stacks"][kind]["rows"]}
        assert list(rows) == [None, 0, 3]
        # four layers: the three that have parameters below the last are exact from k = 3 on
        assert rows[3]["cosine"] == pytest.approx(1, abs=1e-5) and rows[0]["cosine"] < 1 - 1e-4
        assert rows[None]["speed"] == 1 and rows[0]["backward"] > 0
    assert (tmp_path / "figures" / "highway_pipeline.png").stat().st_size > 10_000


def test_wrong_sums_are_noticed(monkeypatch):
    """In one process: without what the later processes send, gradients are those of another stack."""
    import torch.distributed as dist

    from sciops.training.gradients.stacks import pipeline

    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        assert study.check_equal(study.Config()) < 1e-12
        real = pipeline.PlacedStack._behind
        monkeypatch.setattr(pipeline.PlacedStack, "_behind", lambda self, total, keep: real(self, total, keep) + 1e-3)
        with pytest.raises(RuntimeError, match="process 0, k = 1, γ = 0.0.*differs from its reference"):
            study.check_equal(study.Config())
        with pytest.raises(ValueError, match="at least one layer"):
            pipeline.PlacedStack([])
        stack = pipeline.PlacedStack([torch.nn.Linear(2, 2)])
        stack.forward(torch.ones(1, 2))
        with pytest.raises(ValueError, match="exact=True"):
            stack.backward(None)
    finally:
        dist.destroy_process_group()


def test_refusals():
    with pytest.raises(ValueError, match="--layers 3: expected mlp or fno, and an even number"):
        study._check(study.Config(layers=3), 2)
    with pytest.raises(ValueError, match="--stacks gru"):
        study._check(study.Config(stacks=("gru",)), 2)
