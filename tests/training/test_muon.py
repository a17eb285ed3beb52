import pytest
import torch

import sciops
from sciops.datasets import Splits, TensorFields
from sciops.training import TrainConfig, fit
from sciops.training.muon import MuonAdamW
from sciops.training.optimization import make_optimizer

pytestmark = pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch before 2.9 has no Muon")


def data():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(8, 1, 8, 8, generator=g)
    grid = sciops.Grid((8, 8))
    return Splits(TensorFields(x[:6], x[:6] ** 2, grid), TensorFields(x[6:], x[6:] ** 2, grid), None)


def model():
    torch.manual_seed(0)
    return sciops.build_model("fno", in_channels=1, out_channels=1, width=4, depth=1, modes=(2, 2))


def settings(**options):
    return TrainConfig(epochs=4, batch_size=2, optimizer="muon", progress=False, device="cpu", **options)


def test_every_parameter_takes_the_step_of_its_own_optimiser():
    """Against the two optimisers of torch by themselves, rates changed in between."""
    ours, theirs = model(), model()
    config = TrainConfig(optimizer="muon", learning_rate=1e-2, weight_decay=0.1)
    one = make_optimizer(list(ours.parameters()), config, torch.device("cpu"))
    matrices = [p for p in theirs.parameters() if p.ndim == 2 and min(p.shape) > 1]
    others = [p for p in theirs.parameters() if not any(p is q for q in matrices)]
    muon = torch.optim.Muon(matrices, lr=1e-2, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    groups = [{"params": [p for p in others if (p.ndim >= 2) == m], "weight_decay": 0.1 * m} for m in (True, False)]
    adamw = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.999), fused=True)
    assert isinstance(one, MuonAdamW) and len(matrices) > 3
    x = torch.randn(2, 1, 8, 8)
    for rate in (1e-2, 5e-3, 1e-3):
        for optimizer in (one, muon, adamw):
            for group in optimizer.param_groups:
                group["lr"] = rate
        for net in (ours, theirs):
            net.zero_grad()
            net(x).square().mean().backward()
        one.step(), muon.step(), adamw.step()
    for p, q in zip(ours.parameters(), theirs.parameters()):
        assert torch.equal(p, q)


def test_resumes_bit_for_bit(tmp_path):
    whole = fit(model(), data(), settings(folder=tmp_path / "whole"))
    fit(model(), data(), settings(folder=tmp_path / "parts", stop_after=2))
    resumed = fit(model(), data(), settings(folder=tmp_path / "parts", resume=True))
    for key, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[key])
    assert [r["loss"] for r in whole.history] == [r["loss"] for r in resumed.history]
    adamw = fit(model(), data(), TrainConfig(epochs=4, batch_size=2, progress=False, device="cpu"))
    assert adamw.history[-1]["loss"] != whole.history[-1]["loss"]


def test_a_run_of_another_optimiser_is_not_resumed(tmp_path):
    fit(model(), data(), settings(folder=tmp_path, stop_after=1))
    with pytest.raises(ValueError, match="optimizer='muon'"):
        adamw = TrainConfig(epochs=4, batch_size=2, progress=False, device="cpu", folder=tmp_path, resume=True)
        fit(model(), data(), adamw)


def test_refusals(monkeypatch):
    with pytest.raises(ValueError, match="strategy='ddp'"):
        TrainConfig(optimizer="muon", strategy="fsdp")
    with pytest.raises(ValueError, match="the model has none"):
        bias = [torch.nn.Parameter(torch.zeros(3))]
        make_optimizer(bias, TrainConfig(optimizer="muon"), torch.device("cpu"))
    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(ValueError, match="torch 2.9 or later"):
        TrainConfig(optimizer="muon")
