"""Fields read from disk while the step runs: the bits of a run in memory, nothing left open, errors in one line."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from test_resume import QUIET, assert_same, network, without_clock
from warm import python

from sciops.datasets import (
    Normalizer,
    SpaceTimeDataset,
    Splits,
    TensorFields,
    TrajectoryDataset,
    build_dataset,
    load_splits,
    write_native,
)
from sciops.grids import Grid
from sciops.training import evaluate, fit
from sciops.training.data import checks
from sciops.training.data.loader import Loader
from studies.kit.fields.smooth import write_fields

# Python 3.12 and later warn of every fork beside a thread
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
WAYS = {
    "thread": {},
    "fork": {"loader_workers": 2, "start_method": "fork"},
    "forkserver": {"loader_workers": 1, "start_method": "forkserver"},
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_fields(tmp_path_factory.mktemp("fields") / "fields.h5", (9, 5), train=27, validation=6, test=4, seed=0)


def splits(path: Path, memory_limit: int = 0) -> Splits:
    parts = [load_splits(path, points, memory_limit=memory_limit) for points in (9, 5)]
    assert all(part.train.lazy == (memory_limit == 0) for part in parts)
    return Splits([part.train for part in parts], [part.validation for part in parts])


@pytest.fixture(scope="module")
def in_memory(path, tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory")
    return fit(network(), splits(path, 2**30), replace(QUIET, augment="square", folder=folder))


def handles() -> tuple[int, int, int]:
    return len(os.listdir("/proc/self/fd")), threading.active_count(), len(multiprocessing.active_children())


def settles(before: tuple[int, ...], start: int = 0) -> bool:
    """Whether no more is open than `before`: threads that feed a queue take a moment to see that it is closed, also
    those of an earlier test, so that less may be open."""
    for _ in range(100):
        if all(now <= then for now, then in zip(handles()[start:], before[start:])):
            return True
        time.sleep(0.05)
    return False


class Slow(TensorFields):
    """A data set of the caller's own that fails, or stops, at one sample."""

    lazy = True

    def __init__(self, bad: int | None = None, error: Exception | None = None) -> None:
        x = torch.rand(24, 1, 4, 4, generator=torch.Generator().manual_seed(0))
        super().__init__(x, 2 * x + 1, Grid((4, 4)))
        self.bad, self.error, self.largest, self.closed = bad, error, 0, False

    def batch(self, indices):
        self.largest = max(self.largest, len(indices))
        if self.bad in np.asarray(indices) and len(indices) > 1:
            raise self.error
        return super().batch(indices)

    def close(self) -> None:
        self.closed = True


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in /proc")


@needs_proc
@pytest.mark.parametrize("way", WAYS)
def test_a_run_on_disk_has_the_bits_of_one_in_memory_and_leaves_nothing_open(path, in_memory, tmp_path, way):
    # the model has dropout: reading must not touch the random state either
    config = replace(QUIET, augment="square", folder=tmp_path, **WAYS[way])
    if way != "thread":  # torch's helpers of shared memory stay with the process from their first use on
        with Loader([Slow()], workers=1, start_method=WAYS[way]["start_method"]) as loader:
            list(loader.batches([(0, np.arange(3))]))
    data = splits(path)
    before = handles()
    run = fit(network(), data, config)
    assert settles(before)
    assert_same(in_memory.folder, tmp_path)
    assert without_clock(run.history) == without_clock(in_memory.history)
    for p, q in zip(in_memory.model.state_dict().values(), run.model.state_dict().values()):
        assert torch.equal(p, q)


@needs_proc
def test_evaluation_reads_ahead_too_and_closes(path, in_memory):
    before = handles()
    errors = [evaluate(in_memory.model, load_splits(path, 9, memory_limit=m).test, batch_size=3) for m in (0, 2**30)]
    np.testing.assert_array_equal(*(e["relative_l2"] for e in errors))
    assert len(errors[0]["relative_l2"]) == 4 and settles(before)


@pytest.mark.parametrize("way", ["thread", "fork"])
@pytest.mark.parametrize("error", [OSError("fields.h5: damaged, sample 7"), ValueError("sample 7 is no field")])
def test_what_the_reader_says_comes_out_in_one_line_and_nothing_stays(way, error):
    data, before = Slow(bad=7, error=error), handles()
    with pytest.raises(type(error)) as caught:
        fit(network(), Splits(data), replace(QUIET, **WAYS[way]))
    assert str(caught.value) == str(error)
    assert data.closed and settles(before, 1)
    with Loader([data], workers=WAYS[way].get("loader_workers", 0), start_method="fork") as loader:
        batches = loader.batches([(0, np.array(i)) for i in ([1, 2], [3, 4], [6, 7], [8, 9])])
        assert [len(next(batches)["x"]) for _ in range(2)] == [2, 2]  # those before it come first
        with pytest.raises(type(error)):
            next(batches)
    assert settles(before, 1)


def test_an_error_that_cannot_travel_is_told_in_words():
    class Local(Exception):
        pass

    with Loader([Slow(7, Local("here only"))], workers=1, start_method="fork") as loader:
        with pytest.raises(RuntimeError, match="^Local: here only$"):
            list(loader.batches([(0, np.array([6, 7]))]))


def test_a_data_set_that_cannot_be_sent_is_refused_in_one_line():
    data = Slow()
    data.function = lambda: None
    with Loader([data], workers=1, start_method="spawn") as loader:
        with pytest.raises(TypeError, match="cannot be sent to a process that begins with 'spawn'.*loader_workers=0"):
            list(loader.batches([(0, np.arange(2))]))


@needs_proc
@pytest.mark.parametrize("wrap", [lambda d: d, SpaceTimeDataset], ids=["trajectories", "space-time"])
def test_files_of_trajectories_are_closed_too(tmp_path, wrap):
    grid = Grid((8,), centering="periodic")
    u = np.random.default_rng(0).standard_normal((6, 5, 8))
    fields = {"u": (("sample", "time", "x"), u, {})}
    options = dict(layout="native", equation="test", state=("u",), times=np.arange(5.0), time_units="s")
    path = write_native(tmp_path / "data.h5", build_dataset(fields, grid, **options))
    data = wrap(TrajectoryDataset(path, horizon=None, memory_limit=0))
    assert data.lazy  # and what looks at a file first is there, for good
    before = handles()
    with Loader([data]) as loader:
        (batch,) = loader.batches([(0, np.array([4, 1]))])
    assert batch["y"].numpy().ravel().sum() == pytest.approx(u[[4, 1], 1:].sum(), rel=1e-5)
    assert settles(before)


class Dying(Slow):
    main = os.getpid()

    def batch(self, indices):
        if self.bad in np.asarray(indices) and os.getpid() != self.main:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().batch(indices)


def test_a_reading_process_that_is_killed_ends_the_run_in_one_line_with_advice():
    before = handles()
    with pytest.raises(RuntimeError, match="^DataLoader worker .*It read fields .loader_workers=1.*memory for each of"):
        fit(network(), Splits(Dying(bad=7)), replace(QUIET, **WAYS["fork"] | {"loader_workers": 1}))
    assert settles(before, 1)


class Kept(TensorFields):
    """Fields in memory, which no other process is to get."""

    def __getstate__(self):
        raise AssertionError("sent to a process")


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_fields_in_memory_stay_where_they_are_beside_those_that_are_read(start_method):
    x = torch.rand(9, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    kept = Kept(x, x + 1, Grid((4, 4)))
    plan = [(0, np.array([1, 2])), (1, np.array([3])), (1, np.array([5, 0])), (0, np.array([4])), (1, np.array([8]))]
    with Loader([Slow(), kept], workers=1, start_method=start_method) as loader:
        for _ in range(2):
            read = list(loader.batches(plan))
            for (number, indices), batch in zip(plan, read, strict=True):
                assert torch.equal(batch["y"], (Slow(), kept)[number].y[indices])
        # none but those in memory: no process is needed
        assert len(list(loader.batches(plan[1:3]))) == 2


def test_leaving_early_ends_the_reading(path):
    before = handles()
    for options in ({}, {"workers": 2, "start_method": "fork"}):
        with Loader([splits(path).train[0]], **options) as loader:
            batches = loader.batches([(0, np.arange(i, i + 2)) for i in range(20)])
            next(batches)
            batches.close()
            # the next epoch starts at its own beginning, with none of what was read before
            again = list(loader.batches([(0, np.array([i])) for i in (5, 3)]))
            assert len(again) == 2
            whole = splits(path).train[0].batch([5, 3])
            assert torch.equal(torch.cat([b["y"] for b in again]), whole["y"])
        assert settles(before, 1)


_INTERRUPTED = """
    import multiprocessing, os, signal, sys, time
    from dataclasses import replace
    sys.path[:0] = [sys.argv[1], f"{sys.argv[1]}/.."]
    from test_lazy_loading import QUIET, Slow, Splits, WAYS, fit, handles, network, settles
    main, sent = os.getpid(), multiprocessing.Value("d")
    class Stuck(Slow):
        calls = 0
        def batch(self, indices):
            time.sleep(0.05)
            self.calls += 1
            if self.calls % 6 == 0:  # again, as people do: one that falls into a destructor is lost
                sent.value = sent.value or time.monotonic()
                os.kill(main, signal.SIGINT)
            return super().batch(indices)
    fit(network(), Splits(Slow()), replace(QUIET, epochs=1))  # all that loads late is loaded
    for way in ("thread", "fork"):
        before, sent.value = handles(), 0.0
        try:
            fit(network(), Splits(Stuck()), replace(QUIET, epochs=10**6, **WAYS[way]))
        except KeyboardInterrupt:
            print(way, time.monotonic() - sent.value < 5, settles(before, 1))
"""


@needs_proc
def test_an_interrupt_ends_it_at_once():
    done = python(["-c", _INTERRUPTED, str(Path(__file__).parent)], timeout=120)
    assert done.stdout.split() == ["thread", "True", "True", "fork", "True", "True"], done.stderr[-2000:]
    assert "Traceback" not in done.stderr


def test_one_pass_in_blocks_checks_fingerprints_and_fits(path, monkeypatch):
    sets = splits(path).train
    with Loader(sets) as loader:
        whole, normalizers = checks.examine(sets, QUIET, loader, normalize=True)
        monkeypatch.setattr(checks, "_BLOCK", 3 * 2 * 4 * 81)
        small, again = checks.examine(sets, QUIET, loader, normalize=True)
        unfitted, none = checks.examine(sets, QUIET, loader, normalize=False)
    assert whole == small == unfitted and none is None
    for key, a, b in zip(("x", "y"), normalizers, again):
        reference = Normalizer.fit([getattr(part, key) for part in sets])
        for name in ("mean", "std"):
            torch.testing.assert_close(getattr(b, name), getattr(reference, name), rtol=1e-12, atol=1e-13)
            torch.testing.assert_close(getattr(a, name), getattr(b, name), rtol=1e-12, atol=1e-13)
    counting = Slow()
    monkeypatch.setattr(checks, "_BLOCK", 5 * 2 * 4 * 16 + 7)
    with Loader([counting]) as loader:
        checks.examine([counting], QUIET, loader, normalize=True)
    assert counting.largest == 5
    # a value moved from one sample to the next, or from input to output, is another data set
    x = torch.arange(32.0).view(2, 1, 4, 4)
    prints = set()
    for a, b in ((x, x + 1), (x + 1, x), (x.flip(0), x + 1), (x, (x + 1).flip(0))):
        fields = TensorFields(a, b, Grid((4, 4)))
        with Loader([fields]) as loader:
            prints.add(checks.examine([fields], QUIET, loader, normalize=False)[0])
    assert len(prints) == 4


_LIMITED = """
    import ctypes, resource, sys
    from dataclasses import replace
    ctypes.CDLL(None).mallopt(-8, 1)  # M_ARENA_MAX: threads take no memory of their own
    sys.path[:0] = [sys.argv[1], f"{sys.argv[1]}/.."]
    import torch
    from test_lazy_loading import QUIET, fit, load_splits, splits
    small, large, room = sys.argv[2], sys.argv[3], int(sys.argv[4])
    fit(torch.nn.Conv2d(1, 1, 1), splits(small), replace(QUIET, epochs=1))  # all that loads late is loaded
    taken = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (taken + room, taken + room))
    config = replace(QUIET, epochs=1, batch_size=32)
    run = fit(torch.nn.Conv2d(1, 1, 1), load_splits(large, memory_limit=room // 8), config)
    print(f"read on demand: {len(run.history)}", flush=True)
    try:
        fit(torch.nn.Conv2d(1, 1, 1), load_splits(large, memory_limit=2**40), config)
    except (MemoryError, RuntimeError) as error:
        print("in memory:", "llocate" in str(error))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit on a process's own data")
def test_a_file_twice_as_large_as_the_process_may_be_is_trained_on(path, tmp_path):
    room = 80 * 2**20
    samples = 2 * room // (2 * 4 * 64**2)
    a = np.random.default_rng(0).random((samples, 64, 64), np.float32)
    named = {"flag_values": np.int8([0, 1]), "flag_meanings": "train validation"}
    split = (("sample",), np.int8([0] * (samples - 8) + [1] * 8), named)
    dims = ("sample", "x", "y")
    fields = {"a": (dims, a, {}), "u": (dims, 2 * a, {}), "split": split}
    large = write_native(tmp_path / "large.h5", build_dataset(fields, Grid((64, 64)), layout="native", equation="test"))
    arguments = [str(Path(__file__).parent), str(path), str(large), str(room)]
    done = python(["-c", _LIMITED, *arguments], timeout=120)
    assert done.stdout.splitlines() == ["read on demand: 1", "in memory: True"], done.stderr[-2000:]


def test_inputs_and_outputs_may_differ_in_channels_on_a_line(tmp_path):
    grid, random = Grid((12,), centering="periodic"), torch.Generator().manual_seed(0)
    x = torch.rand(20, 3, 12, generator=random)
    data = TensorFields(x, torch.cat([x[:, :1] * 5, x[:, 1:] - 2], 1)[:, :2], grid)
    run = fit(torch.nn.Conv1d(3, 2, 1), Splits(data, data), replace(QUIET, accumulate=2))
    for normalizer, fields in ((run.model.input, data.x), (run.model.output, data.y)):
        torch.testing.assert_close(normalizer.mean, fields.double().mean((0, 2)), rtol=1e-12, atol=1e-14)
    assert run.history[-1]["loss"] < run.history[0]["loss"]
