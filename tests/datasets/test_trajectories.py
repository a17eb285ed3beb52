"""Windows are naive slices, on demand to the bit what they are in memory, and never cross a split."""

import json
import pickle

import numpy as np
import pytest
import torch

from sciops import Grid
from sciops.datasets import SpaceTimeDataset, TrajectoryDataset, build_dataset, load_splits, write_native

GRID = Grid((8,), centering="periodic")
N, T = 6, 9


def dataset(grid=GRID, samples=N, times=T, **changes):
    rng = np.random.default_rng(0)
    space = ("x", "y")[: grid.ndim]
    evolve = lambda: rng.standard_normal((samples, times, *grid.shape))  # noqa: E731
    fields = {
        "u": (("sample", "time", *space), evolve(), {"long_name": "first"}),
        "v": (("sample", "time", *space), evolve(), {"long_name": "second"}),
        "f": (("sample", *space), rng.standard_normal((samples, *grid.shape)), {}),
        "g": (space, rng.standard_normal(grid.shape), {}),
        "viscosity": (("sample",), rng.uniform(1, 2, samples), {}),
        "split": (("sample",), np.repeat(np.int8([0, 1, 2]), (samples - 2, 1, 1)), _SPLIT),
    }
    options = dict(
        equation="test", state=("u", "v"), times=0.5 * np.arange(times), time_units="s", parameters={"gamma": 1.4}
    )
    return build_dataset(fields, grid, layout="native", **(options | changes))


_SPLIT = {"flag_values": np.int8([0, 1, 2]), "flag_meanings": "train validation test"}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write_native(tmp_path_factory.mktemp("trajectories") / "data.h5", dataset())


@pytest.mark.parametrize("memory_limit", [10**9, 0])
@pytest.mark.parametrize(
    "options",
    [
        dict(),
        dict(history=3, horizon=2),
        dict(history=2, horizon=1, lead=2),
        dict(history=1, horizon=None, start=1),
        dict(history=2, horizon=1, lead=None),
        dict(history=2, horizon=2, start=1, stop=8, stride=2, state="v"),
    ],
)
def test_windows_are_naive_slices(file, options, memory_limit):
    opened = dataset()
    state = [options["state"]] if "state" in options else ["u", "v"]
    frames = range(T)[options.get("start", 0) : options.get("stop") : options.get("stride", 1)]
    h, lead, n = options.get("history", 1), options.get("lead", 0), options.get("horizon", 1)
    n = len(frames) - h - lead if n is None else n
    lead = len(frames) - h - n if lead is None else lead
    data = TrajectoryDataset(
        file,
        inputs=("g", "f"),
        parameters=("viscosity", "gamma"),
        dtype=torch.float64,
        memory_limit=memory_limit,
        **options,
    )
    assert (data._memory is None) == (memory_limit == 0)
    expected_x, expected_y = [], []
    for i in range(N):
        for w in range(len(frames) - h - lead - n + 1):
            rows = [opened[name].values[i, frames[w + k]] for k in range(h) for name in state]
            rows += [opened["g"].values, opened["f"].values[i], np.full(8, opened["viscosity"].values[i])]
            expected_x.append([*rows, np.full(8, 1.4)])
            expected_y.append([opened[s].values[i, frames[w + h + lead + k]] for k in range(n) for s in state])
    everything = data.batch(slice(None))
    np.testing.assert_array_equal(everything["x"].numpy(), expected_x)
    np.testing.assert_array_equal(everything["y"].numpy(), expected_y)
    assert len(data) == len(expected_x)
    order = np.random.default_rng(1).permutation(len(data))[:17]
    shuffled = data.batch(order)
    assert torch.equal(shuffled["x"], everything["x"][order]) and torch.equal(shuffled["y"], everything["y"][order])
    assert torch.equal(data[-1]["y"], everything["y"][-1])
    np.testing.assert_array_equal(data.times, 0.5 * np.array(frames))


def test_trajectories_and_subsets_hold_whole_trajectories(file):
    opened = dataset()
    truth = np.stack([opened["u"].values, opened["v"].values], 2).astype(np.float32)
    for memory_limit in (10**9, 0):
        data = TrajectoryDataset(file, inputs="f", memory_limit=memory_limit)
        np.testing.assert_array_equal(data.trajectories().numpy(), truth)
        part = pickle.loads(pickle.dumps(data)).subset([4, 1])
        assert list(part.samples) == [4, 1]
        np.testing.assert_array_equal(part.trajectories().numpy(), truth[[4, 1]])
        np.testing.assert_array_equal(part.constants()[:, 0].numpy(), opened["f"].values[[4, 1]].astype(np.float32))
        assert torch.equal(part.batch([part.windows])["x"][0, :2], torch.from_numpy(truth[1, 0]))


def test_splits_are_by_trajectory_and_share_no_frame(file):
    parts = [TrajectoryDataset(file, split=split) for split in ("train", "validation", "test")]
    assert [list(part.samples) for part in parts] == [[0, 1, 2, 3], [4], [5]]
    frames = [set(map(bytes, part.trajectories().reshape(-1, 8).numpy())) for part in parts]
    assert not (frames[0] & frames[1] or frames[0] & frames[2] or frames[1] & frames[2])


def test_two_axes_and_a_coarser_nested_grid():
    grid = Grid((8, 6), centering="periodic")
    opened = dataset(grid)
    data = TrajectoryDataset(opened, resolution=(4, 3), dtype=torch.float64)
    assert data.grid.shape == (4, 3)
    np.testing.assert_array_equal(data.trajectories()[:, :, 0].numpy(), opened["u"].values[:, :, ::2, ::2])


def test_without_a_time_coordinate_frames_are_numbered():
    data = TrajectoryDataset(dataset(times=T).drop_vars("time"), start=2, stride=3)
    assert list(data.times) == [2, 5, 8] and data.time_units == "frames"


def test_what_is_not_a_trajectory_or_does_not_fit_is_refused_in_one_line():
    steady = build_dataset({"a": (("sample", "x"), np.ones((2, 8)), {})}, GRID, layout="native", equation="darcy")
    with pytest.raises(ValueError, match=r"\(darcy\) is steady.*FieldDataset or --task steady"):
        TrajectoryDataset(steady)
    for options, message in (
        (dict(history=9), "history=9, lead=0, horizon=1: a trajectory has 9 frames"),
        (dict(history=0), "history=0: expected a whole number of at least 1"),
        (dict(state="w"), r"state has 'w': .* here u, v"),
        (dict(inputs="u"), "inputs has 'u': expected fields over x that do not change in time, here f, g"),
        (dict(parameters="nu"), "parameters has 'nu': the data set has viscosity, split, gamma"),
        (dict(samples=[7]), "samples holds 7"),
    ):
        with pytest.raises(ValueError, match=message):
            TrajectoryDataset(dataset(), **options)
    staggered = dataset()
    staggered["v"].attrs["grid"] = json.dumps(Grid((8,), centering="cell").to_dict())
    assert TrajectoryDataset(staggered).grid == GRID  # half a cell apart, everywhere
    assert TrajectoryDataset(staggered, state="v").grid.centering == "cell"
    staggered["v"].attrs["grid"] = json.dumps(Grid((8,), extent=2.0, centering="cell").to_dict())
    with pytest.raises(ValueError, match="'u' and 'v' lie on different grids"):
        TrajectoryDataset(staggered)
    with pytest.raises(IndexError, match="window 48: there are 48"):
        TrajectoryDataset(dataset()).batch([48])


def test_space_time_repeats_the_input_over_the_times_of_the_output():
    opened = dataset()
    data = SpaceTimeDataset(TrajectoryDataset(opened, history=2, horizon=None, inputs="f", dtype=torch.float64))
    assert data.grid.shape == (7, 8) and data.grid.domain == ((0.5, 4.0), (0.0, 1.0))
    np.testing.assert_allclose(data.grid.coordinates()[0], opened["time"].values[2:], rtol=1e-14)
    np.testing.assert_allclose(data.grid.coordinates()[1], GRID.coordinates()[0], rtol=1e-14)
    batch = data.batch([3, 1])
    for row, i in enumerate((3, 1)):
        given = [opened[name].values[i, t] for t in (0, 1) for name in ("u", "v")] + [opened["f"].values[i]]
        for t in range(7):
            np.testing.assert_array_equal(batch["x"][row, :-1, t].numpy(), given)
            np.testing.assert_allclose(batch["x"][row, -1, t].numpy(), (t + 1) / 7, rtol=1e-14)
            np.testing.assert_array_equal(batch["y"][row, 0, t].numpy(), opened["u"].values[i, t + 2])
            np.testing.assert_array_equal(batch["y"][row, 1, t].numpy(), opened["v"].values[i, t + 2])
    with pytest.raises(ValueError, match="expected one window a trajectory"):
        SpaceTimeDataset(TrajectoryDataset(opened))
    uneven = opened.assign_coords(time=np.arange(T) ** 2.0)
    with pytest.raises(ValueError, match="evenly spaced"):
        SpaceTimeDataset(TrajectoryDataset(uneven, horizon=None))


def _folder(tmp_path, names):
    for seed, name in enumerate(names):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        one = dataset().drop_vars("split")
        one["u"] = one["u"] + seed
        write_native(tmp_path / name, one)
    return tmp_path


def test_splits_of_trajectories_from_one_file_and_from_folders_named_for_their_part(file, tmp_path):
    parts = load_splits(file, windows={"history": 2})
    assert [len(part.samples) for part in (parts.train, parts.validation, parts.test)] == [4, 1, 1]
    assert len(parts.train) == 4 * 7
    folder = _folder(tmp_path, ["data/train/a.h5", "data/train/b.h5", "data/valid/a.h5", "data/test/a.h5"])
    parts = load_splits(folder, windows={"history": 2, "inputs": ("f",)}, dtype=torch.float64)
    assert (parts.train.count, parts.validation.count, parts.test.count) == (2 * N, N, N)
    two = [
        TrajectoryDataset(folder / "data" / "train" / name, history=2, inputs=("f",), dtype=torch.float64)
        for name in ("a.h5", "b.h5")
    ]
    order = np.random.default_rng(0).permutation(len(parts.train))[:30]
    for key in ("x", "y"):
        both = torch.cat([one.batch(slice(None))[key] for one in two])
        assert torch.equal(parts.train.batch(order)[key], both[order])
    numbers = [7, 0, 11, 2]
    for name in ("trajectories", "constants"):
        both = torch.cat([getattr(one, name)() for one in two])
        assert torch.equal(getattr(parts.train, name)(numbers), both[numbers])
    few = load_splits(folder, windows={}, train=[8, 1], validation=2, test=0)
    assert few.train.count == 2 and few.validation.count == 2 and few.test is None
    assert torch.equal(few.train.trajectories(), parts.train.trajectories([1, 8]).float())
    assert torch.equal(parts.train.subset([8, 1]).trajectories(), parts.train.trajectories([1, 8]))


def test_the_files_of_a_part_share_its_memory_limit(tmp_path):
    folder = _folder(tmp_path, ["train/a.h5", "train/b.h5", "train/c.h5"])
    one = N * T * 8 * 2 * 4  # bytes of a file's states
    held, some = (
        load_splits(folder, windows={}, test=0, validation=0, memory_limit=m).train for m in (9 * one, 1.5 * one)
    )
    assert [part.lazy for part in held.parts] == [False] * 3
    assert [part.lazy for part in some.parts] == [False, True, True] and some.lazy
    assert sum(part.held_bytes for part in some.parts) == one
    order = np.random.default_rng(0).permutation(len(held))
    assert torch.equal(some.batch(order)["x"], held.batch(order)["x"])
    some.close()


def test_frames_that_are_left_out_are_not_read(file, monkeypatch):
    data = TrajectoryDataset(file, history=1, lead=None, memory_limit=0)
    asked, read = [], data._read
    monkeypatch.setattr(
        data, "_read", lambda source, samples, frames: asked.append(list(frames)) or read(source, samples, frames)
    )
    batch = data.batch([2])
    assert asked == [[0], [T - 1]]
    assert torch.equal(batch["y"][0], TrajectoryDataset(file).trajectories([2])[0, -1])
    data.close()


def test_steady_and_evolving_data_are_told_apart_and_so_are_equations(file, tmp_path):
    with pytest.raises(ValueError, match="holds trajectories, a time-dependent task: take windows"):
        load_splits(file)
    steady = {n: (("sample", "x"), np.ones((20, 8)), {}) for n in ("f", "u")}
    write_native(tmp_path / "train.h5", build_dataset(steady, GRID, layout="native", equation="poisson"))
    assert load_splits(tmp_path / "train.h5").train.inputs == ("f",)
    for path, message in ((tmp_path / "train.h5", "poisson. is steady"), (tmp_path, "holds poisson, steady")):
        with pytest.raises(ValueError, match=message):
            load_splits(path, windows={})
    write_native(tmp_path / "burgers_train.h5", dataset(equation="burgers").drop_vars("split"))
    assert load_splits(tmp_path).train.attrs["equation"] == "poisson"
    assert load_splits(tmp_path, windows={}).train.attrs["equation"] == "burgers"
    write_native(tmp_path / "kdv_train.h5", dataset(equation="kdv").drop_vars("split"))
    with pytest.raises(ValueError, match="holds burgers, kdv: say which by equation="):
        load_splits(tmp_path, windows={})
    assert load_splits(tmp_path, windows={}, equation="kdv").train.attrs["equation"] == "kdv"
    with pytest.raises(ValueError, match="nothing for equation 'heat'"):
        load_splits(tmp_path, windows={}, equation="heat")


def test_the_public_burgers_file_on_demand_is_what_it_is_in_memory_and_closes(real_data):
    held, read = (
        TrajectoryDataset(real_data / "burgers_test_16.pt", history=2, parameters="viscosity", memory_limit=limit)
        for limit in (10**9, 0)
    )
    assert read.lazy and not held.lazy and len(held) == 400 * 15
    order = np.random.default_rng(0).permutation(len(held))[:200]
    for _ in range(2):
        ours, theirs = read.batch(order), held.batch(order)
        assert torch.equal(ours["x"], theirs["x"]) and torch.equal(ours["y"], theirs["y"])
        read.close()
        assert read._opened is None
    assert torch.equal(held.constants([0, 5]), torch.full((2, 1, 16), 0.01))
