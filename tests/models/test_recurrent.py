"""Recurrent models are causal, go on where they stopped, and every way back starts from the same forward pass."""

import numpy as np
import pytest
import torch
from torch import nn
from warm import imports

from sciops.datasets import Normalizer, Splits, TensorFields
from sciops.grids import Grid
from sciops.models import Normalized, Recurrent, build_model, forecast, load_model, save_model
from sciops.training import TrainConfig, fit

CELLS = ("rnn", "gru", "lstm")


@pytest.fixture
def random():
    return torch.Generator().manual_seed(0)


def draw(random, *shape):
    return torch.randn(*shape, generator=random, dtype=torch.float64)


def made(cell="gru", **options):
    torch.manual_seed(1)
    return Recurrent(3, 2, width=6, **{"depth": 2, "cell": cell, **options}).double()


def gradient(loss, model):
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
                      if g is not None])  # fmt: skip


@pytest.mark.parametrize("cell", CELLS)
def test_is_the_stack_written_out(cell, random):
    """Against torch's own layers; with and without skips, norms and maps."""
    x = draw(random, 4, 3, 7)
    for skip, mlp_ratio in ((True, 1.5), (False, 0.0)):
        model = made(cell, skip=skip, norm="layer", mlp_ratio=mlp_ratio, residual=True)
        z = model.lift(x.permute(2, 0, 1))
        for i in range(2):
            h = model.cells[i](model.norms[i](z))[0]
            z = z + model.mixes[i](h) if skip else h
            if mlp_ratio:
                z = z + model.mlps[i](z)
        expected = model.project(z).permute(1, 2, 0) + x[:, :2]
        assert torch.allclose(model(x), expected, atol=1e-13)
        other = made(cell, skip=skip, norm="layer", mlp_ratio=mlp_ratio, residual=True, layout="sequence")
        assert torch.allclose(other(x.transpose(1, 2)).transpose(1, 2), expected, atol=1e-13)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("backward", ["exact", "loop", "truncated", "state_feedback", "highway"])
def test_causal_and_resumable_and_the_same_whatever_the_way_back(cell, backward, random):
    if (cell, backward) == ("rnn", "highway"):
        return
    model, plain = (made(cell, learn_state=True, backward=name) for name in (backward, "exact"))
    with torch.no_grad():
        for one in (model, plain):
            one.initial.copy_(torch.linspace(-1, 1, one.initial.numel()).view_as(one.initial))
    x = draw(random, 2, 3, 20)
    y = model(x)
    assert torch.allclose(y, plain(x), atol=1e-13)
    changed = x.clone()
    changed[..., 12:] += 1
    assert torch.equal(model(changed)[..., :12], y[..., :12]) and (model(changed)[..., 12] != y[..., 12]).any()
    first, state = model(x[..., :9], return_state=True)
    rest, last = model(x[..., 9:], state=state, return_state=True)
    assert torch.allclose(torch.cat([first, rest], -1), y, atol=1e-13)
    assert torch.allclose(last, plain(x, return_state=True)[1], atol=1e-13)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("steps", [1, 4, 30])
def test_truncation_cuts_between_stretches(cell, steps, random):
    """Against stretches that are run on their own, the state detached; all steps in one are exact."""
    model, x = made(cell, depth=1, learn_state=True), draw(random, 2, 3, 10)
    state, parts = None, []
    for start in range(0, 10, steps):
        y, state = model(x[..., start : start + steps], state=state, return_state=True)
        state = state.detach()
        parts.append(y)
    expected = gradient(torch.cat(parts, -1).pow(3).sum(), model)
    with model.going_back("truncated", steps=steps):
        found = gradient(model(x).pow(3).sum(), model)
    assert torch.allclose(found, expected, rtol=1e-11, atol=1e-12)
    exact = gradient(model(x).pow(3).sum(), model)
    assert torch.allclose(found, exact, rtol=1e-11, atol=1e-12) == (steps == 30)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    "backward, options",
    [
        ("exact", {}),
        ("loop", {}),
        ("truncated", {"steps": 3}),
        ("state_feedback", {}),
        ("highway", {"iterations": 2}),
    ],
)
def test_lengths_tell_sequences_apart(cell, backward, options, random):
    if (cell, backward) == ("rnn", "highway"):
        return
    model = made(cell, backward=backward, backward_options=options, learn_state=True, residual=True)
    x, lengths = draw(random, 3, 3, 8), torch.tensor([5, 8, 2])
    ragged = x.clone()
    for b, n in enumerate(lengths):
        ragged[b, :, n:] = float("nan")
    y, state = model(ragged, lengths=lengths, return_state=True)
    found = gradient(y.pow(3).sum() + state.pow(2).sum(), model)
    expected = 0
    for b, n in enumerate(lengths):
        alone, end = model(x[b : b + 1, :, :n], return_state=True)
        assert torch.allclose(y[b : b + 1, :, :n], alone, atol=1e-13) and not y[b, :, n:].any()
        assert torch.allclose(state[:, b : b + 1], end, atol=1e-13)
        expected = expected + gradient(alone.pow(3).sum() + end.pow(2).sum(), model)
    assert torch.allclose(found, expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_highway_with_as_many_sweeps_as_steps_is_exact(cell, random):
    model, x = made(cell, learn_state=True), draw(random, 2, 3, 8)
    exact = gradient(model(x).pow(3).sum(), model)
    for iterations in (7, 3):
        with model.going_back("highway", iterations=iterations):
            found = gradient(model(x).pow(3).sum(), model)
        assert torch.allclose(found, exact, rtol=1e-10, atol=1e-11) == (iterations == 7)


def test_forecast_feeds_readings_back(random):
    torch.manual_seed(0)
    for layout in ("channels", "sequence"):
        model = Recurrent(2, 2, width=5, residual=True, layout=layout).double()
        axis = 2 if layout == "channels" else 1
        x = draw(random, 3, 2, 6) if axis == 2 else draw(random, 3, 6, 2)
        seen = x
        for _ in range(4):
            y = model(seen)
            seen = torch.cat([seen, y.narrow(axis, y.shape[axis] - 1, 1)], axis)
        assert torch.allclose(forecast(model, x, 4), seen.narrow(axis, 6, 4), atol=1e-13)
    core = Recurrent(2, 2, width=5).double()
    sides = [Normalizer.fit([3 * draw(random, 9, 2, 6) + k]).double() for k in (1, 2)]
    model, x = Normalized(core, *sides), draw(random, 3, 2, 6)
    seen = x
    for _ in range(3):
        seen = torch.cat([seen, model(seen)[..., -1:]], -1)
    assert torch.allclose(forecast(model, x, 3), seen[..., 6:], atol=1e-12)


def test_files_keep_the_feedback(tmp_path, random):
    model = build_model("recurrent", in_channels=3, out_channels=2, width=6, cell="lstm", backward="state_feedback",
                        backward_options={"feedback": "gate"})  # fmt: skip
    model(torch.randn(2, 3, 9, generator=random)).sum().backward()
    assert model.feedback[0, 6:].min() > 0 and not model.feedback[0, :6].any() and int(model.feedback_calls[0]) == 1
    loaded = load_model(save_model(model, tmp_path))
    assert torch.equal(loaded.feedback, model.feedback) and loaded.backward_options == {"feedback": "gate"}
    x = torch.randn(2, 3, 9, generator=random)
    assert torch.equal(loaded(x), model(x))


@pytest.mark.parametrize("feedback", ["gate", "least_squares"])
def test_fit_learns_and_goes_on_bit_equal(feedback, tmp_path):
    """A running mean as target; the feedback is part of what is resumed."""
    random = np.random.default_rng(0)
    x = torch.from_numpy(random.standard_normal((48, 1, 12))).float()
    y = x.cumsum(-1) / torch.arange(1, 13)
    grid = Grid((12,), 11.0)
    data = Splits(*(TensorFields(x[part], y[part], grid) for part in (slice(0, 32), slice(32, 48))))
    config = dict(epochs=10, batch_size=4, learning_rate=0.03, gradients="state_feedback", progress=False,
                  gradient_options={"feedback": feedback, "every": 3})  # fmt: skip

    def model():
        torch.manual_seed(0)
        return Recurrent(1, 1, width=8)

    whole = fit(model(), data, TrainConfig(**config))
    assert whole.history[-1]["validation"] < 0.6 * whole.history[0]["validation"]
    folder = tmp_path / "run"
    fit(model(), data, TrainConfig(**config, folder=folder, stop_after=4))
    resumed = fit(model(), data, TrainConfig(**config, folder=folder, resume=True))
    states = [run.model.state_dict() for run in (whole, resumed)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_refusals(random):
    with pytest.raises(ValueError, match="cell='qrnn': expected one of rnn, gru, lstm"):
        Recurrent(1, 1, cell="qrnn")
    with pytest.raises(ValueError, match="backward='bptt': expected one of exact, loop, truncated, "):
        Recurrent(1, 1, backward="bptt")
    with pytest.raises(ValueError, match="residual=True with 1 channels in and 2 out"):
        Recurrent(1, 2, residual=True)
    model = made()
    with pytest.raises(ValueError, match=r"x has shape \(2, 4, 5\); expected \(batch, 3, time\) for layout='channels'"):
        model(torch.zeros(2, 4, 5).double())
    with pytest.raises(ValueError, match=r"lengths=\[0, 5\]: expected 2 whole numbers, one a sequence, from 1 to 5"):
        model(torch.zeros(2, 3, 5).double(), lengths=torch.tensor([0, 5]))
    with pytest.raises(ValueError, match="state has shape"):
        model(torch.zeros(2, 3, 5).double(), state=torch.zeros(1, 2, 6))
    with pytest.raises(ValueError, match="steps=0: expected a whole number"), model.going_back("truncated", steps=0):
        model(torch.zeros(2, 3, 5).double())
    with pytest.raises(ValueError, match="as many channels in as out"):
        forecast(model, torch.zeros(2, 3, 5), 2)
    with pytest.raises(ValueError, match="as many channels in as out"):
        forecast(nn.Linear(2, 2), torch.zeros(2, 3, 5), 2)


def test_rules_of_training_need_no_import():
    """In a process that knows models alone, as a user has it after build_model."""
    code = (
        "import torch; from sciops.models import build_model\n"
        "for rule in ('state_feedback', 'highway'):\n"
        "    model = build_model('recurrent', backward=rule, width=4)\n"
        "    assert 'sciops.training' not in sys.modules\n"
        "    model(torch.ones(1, 1, 3)).sum().backward()\n"
        "    assert all(p.grad is not None for p in model.parameters())"
    )
    done = imports(code)
    assert done.returncode == 0, done.stderr


def test_options_of_a_rule_are_its_own():
    with pytest.raises(ValueError, match="backward='exact' takes none"):
        made(backward_options={"steps": 3})
    with pytest.raises(ValueError, match="backward='truncated' takes steps"):
        made(backward="truncated", backward_options={"level": 3})
