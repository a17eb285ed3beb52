"""Averaged parameters: the recurrence itself, who sees them, and that stopping or sharing the work changes no bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_resume import QUIET, assert_same, data, network, without_clock
from torch import nn
from warm import python

from sciops.datasets import Splits
from sciops.models import build_model
from sciops.training import NonFiniteLoss, TrainConfig, evaluate, fit, load_checkpoint
from sciops.training.averaging import Average
from sciops.training.data import samples

AVERAGED = replace(QUIET, ema=0.9)


class Watched(nn.Module):
    """Records its parameters before every training step and in validation; complex and scalar ones among them."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network()
        self.scalar = nn.Parameter(torch.tensor(0.5))
        self.complex = nn.Parameter(torch.tensor([[0.1 + 0.2j, 0.3 - 0.1j]]))
        self.frozen = nn.Parameter(torch.tensor(2.0), requires_grad=False)
        self.seen: dict[bool, list[dict[str, torch.Tensor]]] = {True: [], False: []}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen[self.training].append({n: p.detach().clone() for n, p in self.named_parameters()})
        return self.inner(x) * self.scalar * self.complex.abs().sum() * self.frozen


def wide(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {n: t.to(torch.complex128 if t.is_complex() else torch.float64) for n, t in tensors.items()}


def test_what_is_validated_kept_and_returned_is_the_recurrence_over_the_steps():
    config = replace(AVERAGED, keep="last", precision="float64")
    raw, model = Watched(), Watched()
    fit(raw, data(), replace(config, ema=None))
    run = fit(model, data(), config)
    # training itself does not feel the average
    assert len(model.seen[True]) == len(raw.seen[True]) == run.steps
    for a, b in zip(model.seen[True], raw.seen[True]):
        for name in a:
            assert torch.equal(a[name], b[name])
    after = [wide(p) for p in model.seen[True][1:]]
    after.append(wide({n: p.detach() for n, p in raw.named_parameters()}))
    names = [n for n, p in model.named_parameters() if p.requires_grad]
    average = dict(after[0])
    averages = [average]
    for step in range(2, run.steps + 1):
        d = min(0.9, (1 + step) / (10 + step))
        average = {n: d * average[n] + (1 - d) * after[step - 1][n] for n in names}
        averages.append(average)
    for record, seen in zip(run.history, model.seen[False]):  # one validation batch an epoch
        for name in names:
            torch.testing.assert_close(seen[name], averages[record["step"] - 1][name], rtol=1e-12, atol=1e-13)
    for name, p in model.named_parameters():
        if name in names:
            torch.testing.assert_close(p.detach(), average[name], rtol=1e-12, atol=1e-13)
    assert model.frozen == 2
    errors = evaluate(run.model, data().validation)["relative_l2"]
    assert run.history[-1]["validation"] == pytest.approx(errors.mean(), rel=1e-12)


def test_a_noisy_minimum_is_found_more_closely():
    """With a constant rate the raw parameters jump around the minimum; their mean lies much nearer."""
    targets = 3.0 + torch.randn(400, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    p = nn.Parameter(torch.zeros((), dtype=torch.float64))
    average = Average({p: "p"}, 0.99)
    errors, averaged = [], []
    for step, target in enumerate(targets, 1):
        with torch.no_grad():
            p -= 0.3 * (p - target)
        average.update(step)
        errors.append(p.item() - 3)
        averaged.append(average.tensors[0].item() - 3)
    late = slice(200, None)
    assert torch.tensor(averaged[late]).square().mean() < 0.1 * torch.tensor(errors[late]).square().mean()


@pytest.mark.parametrize(
    "changes",
    [{}, {"keep": "last", "precision": "bf16"}, {"precision": "fp16", "checkpoint_every": 3, "validate_every": 3}],
    ids=["best", "last", "fp16"],
)
def test_stopped_and_resumed_is_bit_equal_to_uninterrupted(tmp_path, changes):
    config = replace(AVERAGED, **changes)
    whole = fit(network(), data(), replace(config, folder=tmp_path / "whole"))
    for stop in (1, 3, 4):
        run = fit(
            network(seed=stop - 1), data(), replace(config, folder=tmp_path / "parts", resume=True, stop_after=stop)
        )
    assert_same(tmp_path / "whole", tmp_path / "parts")
    raw = fit(network(), data(), replace(config, ema=None, keep="last"))
    last, _ = load_checkpoint(tmp_path / "whole" / "last.safetensors")
    for name, p in raw.model.named_parameters():
        assert torch.equal(last[f"raw/{name}"], p.detach()) and not torch.equal(last[f"model/{name}"], p.detach())
    for name, b in raw.model.named_buffers():
        assert torch.equal(last[f"model/{name}"], b) and f"raw/{name}" not in last
    memory = fit(network(), data(), config)
    assert without_clock(whole.history) == without_clock(run.history) == without_clock(memory.history)
    for p, q, r in zip(*(done.model.state_dict().values() for done in (whole, run, memory))):
        assert torch.equal(p, q) and torch.equal(p, r)


def test_the_best_epoch_is_that_of_the_average(tmp_path):
    config = replace(AVERAGED, epochs=8, learning_rate=0.3, schedule="constant", clip=None, folder=tmp_path)
    run = fit(network(), data(), config)
    values = [record["validation"] for record in run.history]
    assert run.best == min(values) == values[run.best_epoch - 1] and run.best_epoch < 8
    errors = evaluate(run.model, data().validation)["relative_l2"]
    assert errors.mean() == pytest.approx(run.best, rel=1e-5)
    best, _ = load_checkpoint(tmp_path / "best.safetensors")
    for name, value in run.model.state_dict().items():
        assert torch.equal(best[f"model/{name}"], value)


def test_without_it_files_hold_what_they_held(tmp_path):
    fit(network(), data(), replace(QUIET, folder=tmp_path))
    tensors, state = load_checkpoint(tmp_path / "last.safetensors")
    assert {name.split("/")[0] for name in tensors} <= {"model", "optimizer", "best"}
    assert "ema" not in state["config"] and "ema" not in QUIET.identity()
    assert AVERAGED.identity() == QUIET.identity() | {"ema": 0.9}
    with pytest.raises(ValueError, match="trained with ema=None, this config has 0.9"):
        fit(network(), data(), replace(AVERAGED, folder=tmp_path, resume=True))
    fit(network(), data(), replace(AVERAGED, folder=tmp_path / "averaged", stop_after=1))
    with pytest.raises(ValueError, match="trained with ema=0.9, this config has None"):
        fit(network(), data(), replace(QUIET, folder=tmp_path / "averaged", resume=True))


def test_a_loss_that_is_not_finite_leaves_the_last_good_average(monkeypatch):
    good = fit(network(), data(), replace(AVERAGED, keep="last", stop_after=2))
    validate, calls = samples.validate, []

    def poison(model, *arguments):
        calls.append(validate(model, *arguments))
        return calls[-1]

    def interrupt(model, loss_fn, batch):
        loss = real(model, loss_fn, batch)
        return loss * float("inf") if len(calls) == 2 else loss

    real = samples.GRADIENTS["backprop"]
    monkeypatch.setattr(samples, "validate", poison)
    monkeypatch.setitem(samples.GRADIENTS, "backprop", interrupt)
    run = fit(network(), data(), replace(AVERAGED, keep="last", on_nonfinite="stop"))
    assert run.epochs == 2 and "state after epoch 2" in run.stopped
    for p, q in zip(run.model.state_dict().values(), good.model.state_dict().values()):
        assert torch.equal(p, q)
    with pytest.raises(NonFiniteLoss):
        fit(network(), data(), replace(AVERAGED, keep="last"))


@pytest.mark.parametrize("value", [0.0, 1.0, -0.5, float("nan")])
def test_a_decay_that_is_none_is_refused(value):
    with pytest.raises(ValueError, match="ema=.*expected a decay per step"):
        TrainConfig(ema=value)


def test_a_validation_that_raises_leaves_the_raw_parameters():
    p = nn.Parameter(torch.tensor([1.0, 2.0]))
    average = Average({p: "p"}, 0.5)
    for step in (1, 2):
        with torch.no_grad():
            p += 1
        average.update(step)
    d = 3 / 12
    with pytest.raises(KeyboardInterrupt), average.in_place():
        torch.testing.assert_close(p.detach(), d * torch.tensor([2.0, 3.0]) + (1 - d) * torch.tensor([3.0, 4.0]))
        assert torch.equal(average.raw_tensors()["raw/p"], torch.tensor([3.0, 4.0]))
        raise KeyboardInterrupt
    assert torch.equal(p.detach(), torch.tensor([3.0, 4.0]))


def plain(seed: int = 0) -> nn.Module:
    """Without dropout and batch statistics, which differ by process; the seed differs by process where asked."""
    return nn.Sequential(*(m for m in network(seed) if not isinstance(m, (nn.BatchNorm2d, nn.Dropout))))


def neural(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_model("neuralop:FNO", in_channels=1, out_channels=1, width=4, depth=1, modes=(2, 2))


EXACT = replace(AVERAGED, epochs=3, precision="float64", device="cpu")
SINGLE = replace(EXACT, precision="float32", batch_size=9)
# name: (model, config, what differs under torchrun, tolerance)
CASES = {
    "ddp": (plain, EXACT, {}, 1e-10),
    "fsdp": (plain, EXACT, {"strategy": "fsdp"}, 1e-10),
    "fsdp-last": (plain, EXACT, {"strategy": "fsdp", "accumulate": 2, "keep": "last"}, 1e-10),
    "complex-fsdp": (neural, SINGLE, {"strategy": "fsdp"}, 1e-4),
}

_SCRIPT = """
    import os, sys
    from dataclasses import replace
    from pathlib import Path
    sys.path.insert(0, sys.argv[2])
    from test_averaging import CASES
    from test_resume import data
    from sciops.training import fit

    folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
    said = []
    for name, (model, config, changes, _) in CASES.items():
        config = replace(config, **changes)
        # parameters of process 0 count, whatever the others begin with
        whole = fit(model(seed=rank), data(), replace(config, folder=folder / f"{name}-whole"))
        fit(model(), data(), replace(config, folder=folder / name, stop_after=1))
        run = fit(model(seed=5), data(), replace(config, folder=folder / name, resume=True))
        for done in (whole, run):
            said.append(repr([p.detach().abs().double().sum().item() for p in done.model.parameters()]))
    Path(f"{folder}-{rank}.txt").write_text("\\n".join(said))
"""


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Every case run by two processes, at once and in two calls, in one launch."""
    folder = tmp_path_factory.mktemp("averaged")
    arguments = ["-c", _SCRIPT, str(folder / "two"), str(Path(__file__).parent)]
    done = python(arguments, timeout=300, processes=2)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "two", [(folder / f"two-{rank}.txt").read_text().splitlines() for rank in (0, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_two_processes_average_as_one_and_resume_to_the_same_bits(together, tmp_path, name):
    model, config, _, tolerance = CASES[name]
    fit(model(), data(), replace(config, folder=tmp_path))
    assert_same(together[0] / f"{name}-whole", together[0] / name)
    for file in ("last.safetensors", "best.safetensors"):
        (one, _), (two, _) = load_checkpoint(tmp_path / file), load_checkpoint(together[0] / name / file)
        assert set(one) == set(two)
        for key, value in one.items():
            scale = value.abs().max().item() if value.numel() else 0.0
            torch.testing.assert_close(two[key], value, rtol=tolerance, atol=tolerance * scale, msg=key)


@pytest.mark.slow
def test_every_process_ends_with_the_same_bits(together):
    assert together[1][0] == together[1][1]
    assert len(together[1][0]) == 2 * len(CASES)


def test_fields_without_validation_return_the_last_average():
    runs = [fit(network(), Splits(data().train), replace(AVERAGED, keep=keep)) for keep in ("best", "last")]
    raw = fit(network(), Splits(data().train), QUIET)
    for p, q in zip(*(run.model.parameters() for run in runs)):
        assert torch.equal(p, q)
    assert any(not torch.equal(p, q) for p, q in zip(runs[0].model.parameters(), raw.model.parameters()))
