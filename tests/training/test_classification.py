"""Labels in the loop: the loss by its formula, mixing and cropping by theirs, and digits that are learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_resume import assert_same, without_clock
from torch import nn

from sciops.datasets import Splits
from sciops.datasets.images import ImageDataset, load_images
from sciops.models import Normalized
from sciops.training import TrainConfig, evaluate, fit, predict
from sciops.training.data.batches import Batch, epoch_steps, micro_batches
from sciops.training.data.steps import loss_function, to_batch
from sciops.training.objectives import cross_entropy, error_rate
from sciops.training.tasks.image_augmentation import augmented, draw, mixed
from sciops.training.tasks.tasks import task_of

QUIET = TrainConfig(
    objective="cross_entropy", epochs=4, batch_size=8, learning_rate=2e-3, schedule="cosine", progress=False
)
MIXING = {"mixup": 0.4, "augment": "crop_flip", "crop_padding": 1, "label_smoothing": 0.1}


def pictures(n: int = 20, seed: int = 0, classes: int = 3, side: int = 6) -> ImageDataset:
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 256, (n, 2, side, side), np.uint8)
    return ImageDataset(pixels, random.integers(0, classes, n), classes=[str(i) for i in range(classes)])


def network(seed: int = 0, channels: int = 2, classes: int = 3, width: int = 8) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.GELU(),
            nn.Dropout(0.1),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.GELU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(8 * width, classes),
        )


def test_cross_entropy_by_its_formula():
    random = np.random.default_rng(0)
    z, q = 3 * random.standard_normal((50, 7)), random.dirichlet(np.ones(7), 50)
    z[0] += 1e4  # a shift of all logits changes nothing
    explicit = [
        -sum(q[i, k] * (z[i, k] - z[i].max() - np.log(np.exp(z[i] - z[i].max()).sum())) for k in range(7))
        for i in range(50)
    ]
    found = cross_entropy(torch.from_numpy(z), torch.from_numpy(q))
    np.testing.assert_allclose(found.numpy(), explicit, rtol=1e-12)
    labels = random.integers(0, 7, 50)
    hard = cross_entropy(torch.from_numpy(z), torch.eye(7, dtype=torch.float64)[labels])
    peer = nn.functional.cross_entropy(torch.from_numpy(z), torch.from_numpy(labels), reduction="none")
    torch.testing.assert_close(hard, peer, rtol=1e-12, atol=0)
    # the least value over z is the entropy of q, at z = log q
    least = cross_entropy(torch.from_numpy(np.log(q)), torch.from_numpy(q))
    np.testing.assert_allclose(least.numpy(), -(q * np.log(q)).sum(1), rtol=1e-12)
    assert (found >= least - 1e-12).all()


def test_the_loss_is_that_of_mixed_and_smoothed_labels():
    config = replace(QUIET, precision="float64", mixup=0.7, label_smoothing=0.2)
    data = pictures(11)
    step = epoch_steps([11], config, 2)[0]
    read = data.batch(task_of(config).reads(step.indices, step.codes))
    batch = to_batch(read, step, 1 / 8, data.grid, config, torch.device("cpu"))
    share, x = step.codes["share"], data.batch(np.arange(11))["x"].double()
    assert len(set(share)) == 1 and 0 < share[0] < 1, "one λ a step"
    assert sorted(step.codes["partner"]) == sorted(step.indices), "partners are the step's own images"
    for k, (i, j) in enumerate(zip(step.indices, step.codes["partner"])):
        torch.testing.assert_close(batch.x[k], share[0] * x[i] + (1 - share[0]) * x[j], rtol=1e-14, atol=1e-14)
    z = torch.randn(8, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    log_p = z - z.logsumexp(1, keepdim=True)
    expected = 0.0
    for k, (i, j) in enumerate(zip(step.indices, step.codes["partner"])):
        for target, weight in ((data.labels[i], share[k]), (data.labels[j], 1 - share[k])):
            expected -= weight * (0.8 * log_p[k, target] + 0.2 * log_p[k].mean()) / 8
    loss = loss_function(config, torch.amp.GradScaler("cpu", enabled=False))(z, batch)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)


def test_mixup_draws_beta_shares_by_seed_epoch_and_step():
    shares = [
        step.codes["share"][0]
        for epoch in range(40)
        for step in epoch_steps([64], replace(QUIET, batch_size=4, mixup=0.5), epoch)
    ]
    assert len(set(shares)) == len(shares) == 640
    # Beta(α, α) has mean ½ and variance 1/(4(2α + 1)) = 1/8; five standard errors
    assert abs(np.mean(shares) - 0.5) < 5 * np.sqrt(1 / 8 / 640)
    assert abs(np.var(shares) - 1 / 8) < 0.02
    again = epoch_steps([64], replace(QUIET, batch_size=4, mixup=0.5), 3)
    other = epoch_steps([64], replace(QUIET, batch_size=4, mixup=0.5, seed=1), 3)
    assert again[5].codes["share"][0] == shares[3 * 16 + 5] != other[5].codes["share"][0]
    plain = epoch_steps([64], QUIET, 0)[0]
    assert (plain.codes["share"] == 1).all()
    np.testing.assert_array_equal(task_of(QUIET).reads(plain.indices, plain.codes), plain.indices)


def test_crops_are_those_of_the_image_padded_by_its_edges():
    x = torch.randn(40, 2, 5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    drawn = draw(np.random.default_rng(1), np.arange(40), 0.0)
    padded = nn.functional.pad(x, (2, 2, 2, 2), mode="replicate")
    found, offsets = augmented(x, drawn, "crop_flip", 2), set()
    for i in range(40):
        row, column = (int(np.floor(5 * drawn[i][name])) for name in ("row", "column"))
        offsets |= {("row", row), ("column", column)}
        crop = padded[i, :, row : row + 5, column : column + 7]
        assert torch.equal(found[i], crop.flip(-1) if drawn[i]["mirrored"] else crop)
    assert len(offsets) == 10, "every offset occurs"
    assert augmented(x, drawn, "none") is x
    flipped = augmented(x, drawn, "flip")
    for i in range(40):
        assert torch.equal(flipped[i], x[i].flip(-1) if drawn[i]["mirrored"] else x[i])
    # an eighth of the side by default: one pixel of eight
    small = torch.arange(8.0).expand(40, 1, 8, 8)
    assert {float(v) for v in augmented(small, drawn, "crop")[:, 0, 0, 4].unique()} == {3.0, 4.0, 5.0}
    assert torch.equal(mixed(torch.cat([x, x]), drawn), x)


@pytest.mark.parametrize("accumulate, processes", [(1, 1), (3, 1), (2, 3)])
def test_pieces_of_a_step_add_up_to_it(accumulate, processes):
    config, data = replace(QUIET, precision="float64", **MIXING), pictures(7)
    step, task, cpu = epoch_steps([7], config, 0)[0], task_of(config), torch.device("cpu")
    model = network().double().eval()
    loss_fn = loss_function(config, torch.amp.GradScaler("cpu", enabled=False))

    def loss_of(piece, weight):
        batch = to_batch(data.batch(task.reads(piece.indices, piece.codes)), piece, weight, data.grid, config, cpu)
        return loss_fn(model(batch.x), batch).item()

    parts = [micro_batches(step, rank, processes, accumulate) for rank in range(processes)]
    total = sum(loss_of(*piece) for pieces in parts for piece in pieces) / processes
    assert total == pytest.approx(loss_of(step, 1 / 7), rel=1e-12)


@pytest.mark.parametrize("changes", [{}, {"ema": 0.9, "checkpoint_every": 3}, {"precision": "bf16"}], ids=str)
def test_four_epochs_are_two_and_two_resumed(tmp_path, changes):
    config = replace(QUIET, **MIXING, **changes)
    data = Splits(pictures(), pictures(9, seed=1))
    whole = fit(network(), data, replace(config, folder=tmp_path / "whole"))
    fit(network(), data, replace(config, folder=tmp_path / "halves", stop_after=2))
    resumed = fit(network(seed=9), data, replace(config, folder=tmp_path / "halves", resume=True))
    assert_same(tmp_path / "whole", tmp_path / "halves")
    assert without_clock(resumed.history) == without_clock(whole.history)
    for p, q in zip(whole.model.state_dict().values(), resumed.model.state_dict().values()):
        assert torch.equal(p, q)
    with pytest.raises(ValueError, match="trained with mixup=0.4, this config has 0.2"):
        fit(network(), data, replace(config, mixup=0.2, folder=tmp_path / "whole", resume=True))


def test_images_are_normalised_on_the_way_in_and_logits_are_left_alone():
    data = Splits(pictures(30), pictures(9, seed=1))
    run = fit(network(), data, replace(QUIET, keep="last"))
    assert isinstance(run.model, Normalized) and run.model.output is None
    x = data.train.batch(slice(None))["x"].double()
    torch.testing.assert_close(run.model.input.mean, x.mean((0, 2, 3)), rtol=1e-12, atol=0)
    test = data.validation
    logits = predict(run.model, test)
    rate = float((logits.argmax(1).numpy() != test.labels).mean())
    assert run.history[-1]["validation"] == pytest.approx(rate, abs=1e-15)
    assert evaluate(run.model, test, {"error": error_rate}, batch_size=4)["error"].mean() == pytest.approx(rate)
    assert run.history[-1]["validation"] * 9 == pytest.approx(round(run.history[-1]["validation"] * 9))


def test_a_logit_that_is_not_finite_is_wrong():
    z = torch.tensor([[0.0, 1.0], [torch.nan, 0.0], [torch.inf, 0.0]])
    assert error_rate(z, torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])).tolist() == [0, 1, 1]


def test_digits_are_learned():
    data = load_images("digits", test=360, validation=0)
    config = replace(QUIET, epochs=10, batch_size=32, learning_rate=5e-3, label_smoothing=0.05, normalize=False)
    run = fit(network(channels=1, classes=10, width=16), data, config)
    assert evaluate(run.model, data.test, {"error": error_rate})["error"].mean() < 0.05
    # the same images with labels that say nothing are not: what was learned is in the images
    shuffled = ImageDataset(
        data.train.pixels,
        np.random.default_rng(0).permutation(data.train.labels),
        classes=data.train.classes,
        levels=16,
    )
    control = fit(network(channels=1, classes=10, width=16), Splits(shuffled), replace(config, epochs=1))
    assert evaluate(control.model, data.test, {"error": error_rate})["error"].mean() > 0.7


@pytest.mark.parametrize(
    "options, message",
    [
        ({"gradient_weight": 0.1}, "gradient_weight=0.1 does nothing to labels .*: it is for fields; leave"),
        ({"augment": "square"}, "augment='square' moves fields with their targets.*none, crop, flip, crop_flip"),
        ({"crop_padding": 2}, "crop_padding=2 needs augment='crop'"),
        ({"label_smoothing": 1.0}, "label_smoothing=1.0: expected a share in"),
        ({"mixup": -1.0}, "mixup=-1.0: expected a number of at least 0"),
        ({"objective": "mse", "mixup": 0.2}, "mixup=0.2 does nothing to fields .objective='mse'.: it is for labels"),
        ({"objective": "mse", "label_smoothing": 0.1}, "label_smoothing=0.1 does .*: it is for labels and tokens"),
        ({"objective": "relative_l2", "augment": "flip"}, "augment='flip' moves images but not"),
    ],
    ids=lambda o: "-".join(o) if isinstance(o, dict) else "",
)
def test_combinations_without_sense_are_refused_in_one_line(options, message):
    with pytest.raises(ValueError, match=message) as caught:
        replace(QUIET, **options)
    assert "\n" not in str(caught.value)


def test_data_without_sense_is_refused_in_one_line():
    class Other(ImageDataset):
        change = None

        def batch(self, indices):
            batch = super().batch(indices)
            return batch | {"y": self.change(batch["y"])}

    source = pictures()
    other = Other(source.pixels, source.labels, classes="012")
    for other.change, message in (
        (lambda y: y.argmax(1), r"torch.int64 \(1,\).*one_hot"),
        (lambda y: 2 * y, "sums to 2"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(network(), Splits(other), QUIET)
    with pytest.raises(ValueError, match=r"returned \(8, 4\) for targets of shape \(8, 3\)"):
        fit(network(classes=4), Splits(source), QUIET)
    assert isinstance(to_batch(source.batch([0]), epoch_steps([1], QUIET, 0)[0], 1.0, source.grid, QUIET, "cpu"), Batch)
