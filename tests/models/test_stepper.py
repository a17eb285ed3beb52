"""One step, unrolled: gradients equal those of naive loops, and a saved stepper steps the same."""

import numpy as np
import pytest
import torch
from torch import nn

from sciops import Grid, build_model, load_model, save_model
from sciops.datasets import TrajectoryDataset, build_dataset
from sciops.models import Normalized, Stepper

GRID = Grid((12,), centering="periodic")


def small(channels=2, history=2, constants=1, seed=0) -> nn.Module:
    torch.manual_seed(seed)
    shape = dict(in_channels=history * channels + constants, out_channels=channels)
    return build_model("fno", width=4, depth=1, modes=(3,), grid=GRID, **shape).double()


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def gradients(model: nn.Module, loss: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, list(model.parameters())))


def naive_chain(model: nn.Module, x: torch.Tensor, steps: int, *, detach: bool) -> list[torch.Tensor]:
    """Two channels, two frames of history, one constant, written out."""
    older, newer, constant = x[:, :2], x[:, 2:4], x[:, 4:]
    frames = []
    for _ in range(steps):
        following = newer + model(torch.cat([older, newer, constant], 1))
        frames.append(following)
        older, newer = newer, following.detach() if detach else following
    return frames


def test_unrolled_steps_and_their_gradient_are_those_of_the_naive_loop():
    model, x, y = small(), randn(3, 5, 12), randn(3, 8, 12, seed=1)
    stepper = Stepper(model, channels=2, history=2, steps=4)
    frames = torch.cat(naive_chain(model, x, 4, detach=False), 1)
    torch.testing.assert_close(stepper(x, GRID), frames, rtol=0, atol=0)
    ours, theirs = (gradients(model, (u - y).square().sum()) for u in (stepper(x, GRID), frames))
    for one, other in zip(ours, theirs):
        torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-13)


def test_the_pushforward_gradient_is_the_one_step_gradient_at_the_state_the_model_reached():
    model, x, y = small(), randn(3, 5, 12), randn(3, 2, 12, seed=1)
    pushed = Stepper(model, channels=2, history=2, steps=4, gradient="pushforward")
    once = Stepper(model, channels=2, history=2)
    reached = naive_chain(model, x, 3, detach=True)
    window = torch.cat([reached[1], reached[2], x[:, 4:]], 1).detach()
    torch.testing.assert_close(pushed(x, GRID), once(window, GRID), rtol=0, atol=0)
    ours = gradients(model, (pushed(x, GRID) - y).square().sum())
    theirs = gradients(model, (once(window, GRID) - y).square().sum())
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs))
    full = gradients(model, (Stepper(model, channels=2, history=2, steps=4)(x, GRID)[:, -2:] - y).square().sum())
    assert not any(torch.allclose(one, other, rtol=1e-3) for one, other in zip(ours, full))


def test_the_detached_gradient_is_the_sum_of_the_pushforward_gradients():
    model, x, y = small(), randn(3, 5, 12), randn(3, 6, 12, seed=1)
    detached = Stepper(model, channels=2, history=2, steps=3, gradient="detached")
    ours = gradients(model, (detached(x, GRID) - y).square().sum())
    total = [torch.zeros_like(one) for one in ours]
    for k in (1, 2, 3):
        pushed = Stepper(model, channels=2, history=2, steps=k, gradient="pushforward")
        loss = (pushed(x, GRID) - y[:, 2 * k - 2 : 2 * k]).square().sum()
        total = [a + b for a, b in zip(total, gradients(model, loss))]
    for one, other in zip(ours, total):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_without_residual_the_model_gives_the_frame_itself():
    model, x = small(), randn(2, 5, 12)
    torch.testing.assert_close(Stepper(model, channels=2, history=2, residual=False)(x, GRID), model(x), rtol=0, atol=0)


def trajectories(samples=6, times=5) -> TrajectoryDataset:
    rng = np.random.default_rng(0)
    fields = {
        "p": (("sample", "time", "x"), 1e5 + rng.standard_normal((samples, times, 12)), {}),
        "v": (("sample", "time", "x"), 1e-3 * rng.standard_normal((samples, times, 12)), {}),
        "f": (("sample", "x"), 7 + rng.standard_normal((samples, 12)), {}),
    }
    dataset = build_dataset(fields, GRID, layout="native", equation="test", state=("p", "v"), times=np.arange(times))
    return TrajectoryDataset(dataset, history=2, inputs=("f",), dtype=torch.float64)


def test_normalized_states_share_one_statistic_whatever_frame_they_are_in_and_increments_have_their_own():
    data = trajectories()
    u, f = data.trajectories(), data.constants()
    stepper = Stepper.normalized(small(), data)
    wrapped = stepper.model
    assert isinstance(wrapped, Normalized)
    mean, std = u.mean((0, 1, 3)), u.std((0, 1, 3), correction=0)
    torch.testing.assert_close(wrapped.input.mean, torch.cat([mean, mean, f.mean().view(1)]), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(wrapped.input.std[:4], torch.cat([std, std]), rtol=1e-9, atol=0)
    torch.testing.assert_close(wrapped.output.std, u.diff(dim=1).std((0, 1, 3), correction=0), rtol=1e-9, atol=0)
    x = data.batch([0, 7])["x"]
    z = (x - wrapped.input.mean.view(1, 5, 1)) / wrapped.input.std.view(1, 5, 1)
    inner = wrapped.model(z) * wrapped.output.std.view(1, 2, 1) + wrapped.output.mean.view(1, 2, 1)
    torch.testing.assert_close(stepper(x, GRID), x[:, 2:4] + inner, rtol=1e-12, atol=1e-12)
    plain = Stepper.normalized(small(), data, residual=False)
    torch.testing.assert_close(plain.model.output.mean, mean, rtol=1e-12, atol=1e-12)


def test_noise_is_added_to_the_frames_seen_in_training_alone():
    data = trajectories()
    x = data.batch(slice(0, 12))["x"].repeat(200, 1, 1)
    stepper = Stepper.normalized(small(), data, noise=0.1)
    seen = []
    stepper.model.register_forward_pre_hook(lambda module, args, kwargs: seen.append(args[0]), with_kwargs=True)
    stepper.eval()(x, GRID)
    assert torch.equal(seen[0], x)
    torch.manual_seed(0)
    stepper.train()(x, GRID)
    moved = seen[1] - x
    assert torch.equal(moved[:, 4:], torch.zeros_like(moved[:, 4:]))
    torch.testing.assert_close(
        moved[:, :4].std((0, 2)) / stepper.model.input.std[:4], torch.full((4,), 0.1).double(), rtol=0.02, atol=0
    )


def test_a_saved_stepper_steps_the_same(tmp_path):
    data = trajectories()
    stepper = Stepper.normalized(small(), data, steps=3, gradient="detached", noise=0.01).eval()
    save_model(stepper, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.config == stepper.config
    x = data.batch(slice(0, 3))["x"]
    assert torch.equal(loaded(x, GRID), stepper(x, GRID))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps=0: expected a whole number of at least 1"),
        ({"gradient": "none"}, "gradient='none': expected one of full, pushforward, random, detached"),
        ({"noise": -1.0}, "noise=-1.0: expected a number of at least 0"),
    ],
)
def test_bad_options_are_one_line(options, message):
    with pytest.raises(ValueError, match=message):
        Stepper(small(), channels=2, **options)


def test_inputs_and_models_with_the_wrong_channels_are_refused():
    with pytest.raises(ValueError, match=r"expected \(batch, 2 frames × 2 channels"):
        Stepper(small(), channels=2, history=2)(randn(1, 3, 12), GRID)
    with pytest.raises(ValueError, match="returned 2 channels; a frame has 1"):
        Stepper(small(), channels=1, history=4)(randn(1, 5, 12), GRID)
