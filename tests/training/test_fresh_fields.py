"""An endless stream of samples: each the same at every call, none seen twice, resumed where it stopped."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from data_gen.burgers import PRESETS
from data_gen.darcy import DarcyConfig, make
from data_gen.kit.fresh import FIRST, fresh_fields
from sciops.datasets import FreshFields, Normalizer, Splits
from sciops.grids import Grid
from sciops.models import build_model
from sciops.training import TrainConfig, fit

GRID = Grid((16,), centering="periodic")
SEEN: list[int] = []


def waves(numbers: np.ndarray) -> dict[str, np.ndarray]:
    SEEN.extend(numbers.tolist())
    phase = np.stack([np.random.default_rng(int(i)).random(1) for i in numbers])
    x = np.sin(2 * np.pi * (np.arange(16) / 16 + phase))
    return {"x": x[:, None], "y": -x[:, None] + 0.1}


def stream(length: int = 10, **options) -> FreshFields:
    return FreshFields(waves, GRID, length=length, about="waves", **options)


def trained(config: TrainConfig, data: FreshFields):
    torch.manual_seed(0)
    model = build_model("fno", in_channels=1, out_channels=1, width=4, depth=1, modes=(4,), grid=GRID)
    return fit(model, Splits(train=data, validation=stream().subset(range(5))), config)


CONFIG = TrainConfig(epochs=3, batch_size=4, device="cpu", progress=False)


def test_a_sample_is_the_same_in_every_batch():
    one = stream()
    torch.testing.assert_close(one.batch([7, 3, 7, 10**9])["x"][1], one[3]["x"], rtol=0, atol=0)
    many = one.batch([7, 3, 7, 10**9])["x"]
    assert torch.equal(many[0], many[2]) and many.shape == (4, 1, 16) and many.dtype == torch.float32
    assert torch.equal(stream(first=5)[2]["y"], one[7]["y"])
    assert torch.equal(one.subset(slice(2, 4)).x, one.batch([2, 3])["x"])


def test_a_training_on_fields_that_come_twice_resumes(tmp_path):
    data = {"passes": 2, "held": 7}
    whole = trained(CONFIG, stream(**data))
    trained(replace(CONFIG, folder=tmp_path, stop_after=1), stream(**data))
    again = trained(replace(CONFIG, folder=tmp_path, resume=True), stream(**data))
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name


def test_no_sample_is_trained_on_twice():
    SEEN.clear()
    run = trained(CONFIG, stream())
    # the first epoch's samples also fit the normalisers, and make the fingerprint
    counts = np.bincount(SEEN)
    assert (counts[10:] == 1).all() and len(counts) == 30
    statistics = run.model.input
    torch.testing.assert_close(statistics.mean, Normalizer.fit(stream().batch(range(10))["x"]).mean)


def test_every_field_comes_as_often_as_asked_and_is_made_once():
    data, one = stream(length=12, passes=3, held=4), stream()
    order = [int(np.flatnonzero((all_of(one, 24) == x).all((1, 2)))[0]) for x in all_of(data, 72)]
    assert [sorted(order[i : i + 4]) for i in range(0, 24, 4)] == [[0, 1, 2, 3]] * 3 + [[4, 5, 6, 7]] * 3
    assert sorted(order) == sorted([*range(24)] * 3) and len({tuple(order[i : i + 4]) for i in (0, 4, 8)}) > 1
    SEEN.clear()
    data = stream(length=12, passes=3, held=4)
    for start in range(0, 72, 3):  # as a training asks: batches that follow each other
        data.batch(range(start, start + 3))
    assert sorted(SEEN) == list(range(24))
    again = stream(length=12, passes=3, held=4)  # the same at every call, in any order
    assert torch.equal(again.batch([50, 2])["x"], data.batch([2, 50])["x"].flip(0))
    with pytest.raises(ValueError, match="passes=0, held=256"):
        stream(passes=0)


def all_of(data: FreshFields, count: int) -> np.ndarray:
    return data.batch(range(count))["x"].numpy()


def test_a_resumed_training_goes_on_with_the_samples_that_it_would_have_had(tmp_path):
    whole = trained(CONFIG, stream())
    stopped = replace(CONFIG, folder=tmp_path, stop_after=1)
    trained(stopped, stream())
    resumed = replace(stopped, stop_after=None, resume=True)
    for other in (stream(first=1), stream(passes=2, held=5), FreshFields(waves, GRID, length=10, about="other waves")):
        with pytest.raises(ValueError, match="data"):
            trained(resumed, other)
    again = trained(resumed, stream())
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name


def test_the_samples_of_a_generator_are_those_of_its_files():
    config = DarcyConfig(resolutions=(12, 23), modes=16, labels="nested", seed=3)
    grid = Grid((12, 12))
    fields = fresh_fields(config, grid, length=4, first=5)
    made = make(replace(config, resolutions=(23, 12), threads=1), [(5, 9)])
    torch.testing.assert_close(fields.batch(range(4))["y"][:, 0], torch.from_numpy(made["r12/u"]).float())
    torch.testing.assert_close(fields.batch([3, 0])["x"][:, 0], torch.from_numpy(made["r12/a"])[[3, 0]].float())
    beyond = fresh_fields(config, grid, length=4)
    assert beyond.first == FIRST and not torch.equal(beyond[0]["y"], fields[0]["y"])
    assert fresh_fields(replace(config, low=2.0), grid).about != beyond.about


def test_fields_over_time_are_refused():
    stream = fresh_fields(PRESETS["quick"], Grid((32,), centering="periodic"), inputs=("u",), outputs=("u",))
    with pytest.raises(ValueError, match="field 'u': the generator's steady fields are"):
        stream[0]


def test_what_cannot_be_streamed_is_refused():
    with pytest.raises(ValueError, match="expected at least 1 sample an epoch"):
        stream(length=0)
    with pytest.raises(ValueError, match="sample -1: expected a number from 0 on"):
        stream().batch([3, -1])
    config = DarcyConfig(resolutions=(12,), modes=16)
    with pytest.raises(ValueError, match=r"grid \(13, 13\): the configuration has 12 points per axis"):
        fresh_fields(config, Grid((13, 13)))
    with pytest.raises(ValueError, match="field 'b': the generator's steady fields are a, u"):
        fresh_fields(config, Grid((12, 12)), inputs=("b",)).batch([0])
    few = FreshFields(lambda numbers: waves(numbers[:1]), GRID, length=4)
    with pytest.raises(ValueError, match="3 samples were asked for, and make returned 1"):
        few.batch([0, 1, 2])

    def broken(numbers):
        made = waves(numbers)
        made["y"][numbers == 12] = np.nan
        return made

    with pytest.raises(ValueError, match="sample 12 of the stream has values in 'y' that are not finite"):
        trained(CONFIG, FreshFields(broken, GRID, length=10))
