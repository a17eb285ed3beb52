import pytest
import torch

import sciops
from sciops.datasets import Splits, TensorFields
from sciops.training import TrainConfig, fit
from sciops.training.muon import MuonAdamW, StackedMuon, matrix_stacks, polar_factors
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


def spectral(basis="fourier", **options):
    torch.manual_seed(0)
    return sciops.build_model(
        "fno", in_channels=1, out_channels=1, width=4, depth=2, modes=(2, 2), basis=basis, **options
    )


def test_stacks_are_the_weights_of_dense_spectral_layers():
    names = {basis: named_stacks(spectral(basis)) for basis in ("fourier", "sine-cosine")}
    assert [pairs for _, pairs in names["fourier"]] == [True, True]
    assert [pairs for _, pairs in names["sine-cosine"]] == [False] * 4
    assert all(name.endswith("weight") for found in names.values() for name, _ in found)
    assert named_stacks(spectral("sine", weights="diagonal")) == []
    tied = torch.nn.ModuleList([sciops.mixers.SpectralMixer(4, (2, 2), basis="sine", symmetric=True)])
    assert [name for name, _ in named_stacks(tied)] == ["0.parts.0.free"]


def named_stacks(model):
    stacks = matrix_stacks(model)
    return [(name, stacks[p]) for name, p in model.named_parameters() if p in stacks]


def naive_polar(matrix):
    """Newton–Schulz on one matrix through its singular values, which is what the polynomial acts on."""
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    s = s / s.square().sum().sqrt()
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return (u * s) @ v


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("shape", [(3, 4, 4), (2, 3, 5, 2), (2, 2, 6)])
def test_polar_factors_act_on_the_singular_values(shape, dtype):
    x = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(0))
    found = polar_factors(x).reshape(-1, *shape[-2:])
    for one, matrix in zip(found, x.reshape(-1, *shape[-2:])):
        assert (one - naive_polar(matrix)).abs().max() < 1e-12
    assert (torch.linalg.svdvals(found) - 1).abs().max() < 0.5
    assert polar_factors(torch.zeros(2, 3, 3)).abs().max() == 0


@pytest.mark.parametrize("pairs", [False, True])
def test_a_step_of_stacked_muon_matrix_by_matrix(pairs):
    g = torch.Generator().manual_seed(0)
    shape = (2, 3, 4, 2, 5) if pairs else (2, 3, 4, 5)
    start, gradients = (torch.randn(2, *shape, dtype=torch.float64, generator=g) for _ in range(2))
    p = torch.nn.Parameter(start[0].clone())
    optimizer = StackedMuon({p: pairs}, learning_rate=0.02, weight_decay=0.1)
    expected, mean = start[0].clone(), torch.zeros(shape, dtype=torch.float64)
    for gradient in gradients:
        p.grad = gradient.clone()
        optimizer.step()
        mean = 0.95 * mean + 0.05 * gradient
        update = 0.05 * gradient + 0.95 * mean
        for i, j in torch.cartesian_prod(torch.arange(2), torch.arange(3)).tolist():
            one = torch.complex(update[i, j, :, 0], update[i, j, :, 1]) if pairs else update[i, j]
            moved = naive_polar(one)
            moved = torch.stack([moved.real, moved.imag], 1) if pairs else moved
            expected[i, j] = (1 - 0.1 * 0.02) * expected[i, j] - 0.2 * (10 if pairs else 5) ** 0.5 * 0.02 * moved
    assert (p - expected).abs().max() < 1e-12


def test_a_stack_of_one_matrix_moves_as_with_torch():
    """To the rounding of bfloat16, in which torch takes the steps."""
    start, gradient = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0))
    ours, theirs = torch.nn.Parameter(start[None].clone()), torch.nn.Parameter(start.clone())
    options = {"weight_decay": 0.1}
    pair = (
        StackedMuon({ours: False}, learning_rate=0.02, **options),
        torch.optim.Muon([theirs], lr=0.02, momentum=0.95, adjust_lr_fn="match_rms_adamw", **options),
    )
    for optimizer, p in zip(pair, (ours, theirs)):
        p.grad = gradient.view_as(p).clone()
        optimizer.step()
    moved = (theirs - start).norm()
    assert (ours[0] - theirs).norm() < 0.03 * moved


def test_stacked_muon_trains_and_resumes_bit_for_bit(tmp_path):
    def config(**options):
        return TrainConfig(epochs=4, batch_size=2, optimizer="stacked-muon", progress=False, device="cpu", **options)

    whole = fit(spectral(), data(), config(folder=tmp_path / "whole"))
    fit(spectral(), data(), config(folder=tmp_path / "parts", stop_after=2))
    resumed = fit(spectral(), data(), config(folder=tmp_path / "parts", resume=True))
    for key, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[key])
    matrices_only = fit(spectral(), data(), settings())
    assert matrices_only.history[-1]["loss"] != whole.history[-1]["loss"]
    with pytest.raises(ValueError, match="dense spectral layers"):
        fit(spectral("sine", weights="diagonal"), data(), config())
