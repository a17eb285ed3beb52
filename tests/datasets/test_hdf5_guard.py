"""HDF5 files that the library does not survive are met by another process first, which can be ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

from sciops.datasets import open_dataset
from sciops.datasets.formats.samples import write_sample
from sciops.datasets.native.hdf5 import guard as hdf5_guard
from sciops.datasets.native.hdf5.visit import TooMuchMemory, _try, survey, visit
from sciops.files.budget import Budget, opening_within


@pytest.fixture
def guard():
    guard = hdf5_guard.Guard()
    yield guard
    guard.close()


@pytest.fixture
def endless(tmp_path):
    """A text heap whose free space has no length: HDF5 walks on from it by nothing, for ever."""
    path = write_sample("the-well", tmp_path / "endless.h5")
    content = bytearray(path.read_bytes())
    heap = content.index(b"GCOL")
    length = int.from_bytes(content[heap + 8 : heap + 16], "little")
    content[heap + 16 : heap + length] = bytes(length - 16)
    path.write_bytes(content)
    return path


def test_a_file_that_holds_the_library_up_for_ever_is_refused(endless):
    with pytest.raises(
        ValueError,
        match=r"holds the HDF5 library up \(more than 0.92 s of computing, 5 ms an object\): it is damaged",
    ):
        open_dataset(endless)


def test_the_guard_goes_on_after_a_file_has_ended_it(guard, endless, tmp_path):
    sound = write_sample("pdebench-1d", tmp_path / "a.h5")
    guard.check(sound)
    first = guard.process
    guard.check(sound)
    assert guard.process is first and first.poll() is None
    with pytest.raises(ValueError, match="HDF5 library"):
        guard.check(endless)
    assert first.poll() == -signal.SIGPROF
    guard.check(write_sample("pdebench-1d", tmp_path / "b.h5", seed=1))
    assert guard.process is not first and guard.process.poll() is None
    second = guard.process
    with pytest.raises(ValueError, match="HDF5 library"):  # known, and not tried again
        guard.check(endless)
    assert guard.process is second
    endless.write_bytes(sound.read_bytes())
    guard.check(endless)


def test_a_file_that_takes_the_name_of_the_one_that_was_looked_at_is_not_opened(endless, tmp_path, monkeypatch):
    sound, opened = write_sample("pdebench-1d", tmp_path / "a.h5"), h5py.File

    def swapped(path, mode):
        os.replace(endless, sound)
        return opened(path, mode)

    with pytest.raises(ValueError, match="a.h5 changed while it was opened"):
        monkeypatch.setattr(h5py, "File", swapped)
        hdf5_guard.open_survivable(sound)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="HDF5 library"):
        open_dataset(sound)


def test_a_file_that_was_changed_in_place_is_looked_at_again_whatever_its_time_says(endless):
    content, about = endless.read_bytes(), endless.stat()
    write_sample("the-well", endless)
    sound = endless.read_bytes()
    endless.write_bytes(sound + bytes(len(content) - len(sound)))
    os.utime(endless, ns=(about.st_atime_ns, about.st_mtime_ns))
    open_dataset(endless).close()
    with open(endless, "r+b") as file:
        file.write(content)
    os.utime(endless, ns=(about.st_atime_ns, about.st_mtime_ns))
    with pytest.raises(ValueError, match="HDF5 library"):
        open_dataset(endless)


def test_another_who_ends_the_process_does_not_make_a_sound_file_damaged(guard, tmp_path):
    guard.check(write_sample("pdebench-1d", tmp_path / "a.h5"))
    os.kill(guard.process.pid, signal.SIGKILL)
    guard.process.wait()
    guard.check(write_sample("pdebench-1d", tmp_path / "b.h5", seed=1))


def test_what_ends_the_process_is_said(guard, tmp_path, monkeypatch):
    path = write_sample("pdebench-1d", tmp_path / "a.h5")
    script = tmp_path / "script.py"
    monkeypatch.setattr(hdf5_guard, "_VISIT", script)
    monkeypatch.setattr(hdf5_guard, "_PATIENCE", 0.5)
    ends = {
        "os.kill(os.getpid(), signal.SIGSEGV)": r"ends the HDF5 library \(SIGSEGV\)",
        "os.abort()": r"ends the HDF5 library \(SIGABRT\)",
        "sys.exit(3)": r"opening it takes bytes of memory, more than the 1e\+09 besides its own size",
        "sys.exit(5)": r"opening it takes objects .*, more than the 100000 that .*Budget\(objects=4e5\)",
        "os.kill(os.getpid(), signal.SIGXCPU)": "opening it takes seconds of computing, more than the 0.5 that",
        "import time; time.sleep(60)": "keeps the HDF5 library waiting",
    }
    for end, words in ends.items():
        script.write_text(f"import os, signal, sys\nprint('ready', flush=True)\nsys.stdin.readline()\n{end}\n")
        with opening_within(Budget(seconds=0.5)), pytest.raises(ValueError, match=words) as caught:
            guard.check(path)
        path.touch()
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_where_no_process_can_be_started_files_are_opened_without(guard, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no python"))
    guard.check(write_sample("pdebench-1d", tmp_path / "a.h5"))
    assert guard.process is None and not guard.possible


def test_the_process_ends_with_ours_and_nothing_is_left_to_say(tmp_path):
    path = write_sample("pdebench-1d", tmp_path / "a.h5")
    program = (
        "import os; from sciops.datasets import open_dataset; from sciops.datasets.native.hdf5 import guard\n"
        f"open_dataset({str(path)!r}).close(); print(guard._of_process(os.getpid()).process.pid)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    for _ in range(50):
        if not os.path.exists(f"/proc/{int(done.stdout)}"):
            break
        time.sleep(0.1)
    else:
        pytest.fail("the guard outlives its user")


def test_a_forked_process_has_a_guard_of_its_own(tmp_path):
    path = write_sample("pdebench-1d", tmp_path / "a.h5")
    open_dataset(path).close()
    ours = hdf5_guard._of_process(os.getpid()).process.pid
    read, write = os.pipe()
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads that are forked
        pid = os.fork()
    if pid == 0:
        other = write_sample("pdebench-1d", tmp_path / "b.h5", seed=1)
        hdf5_guard.open_survivable(other).close()
        mine = hdf5_guard._of_process(os.getpid())
        os.write(write, str(mine.process.pid).encode())
        mine.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert int(os.read(read, 100)) != ours
    assert hdf5_guard._of_process(os.getpid()).process.poll() is None
    for end in (read, write):
        os.close(end)


def test_links_into_other_files_are_neither_followed_nor_opened(tmp_path):
    """The pipe would hold up whoever opens it."""
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / "links.h5"
    with h5py.File(path, "w") as file:
        file["here/tensor"] = np.zeros((2, 3, 4), np.float32)
        file["here/out"] = h5py.ExternalLink(str(tmp_path / "pipe"), "/")
        assert survey(file) == (("here/out", str(tmp_path / "pipe")), 2)
    visit(str(path))
    with pytest.raises(ValueError, match=r"keeps here/out in another file \(.*pipe\), which is not opened"):
        open_dataset(path)


def test_virtual_arrays_of_other_files_are_refused_and_of_the_same_file_are_read(tmp_path):
    path = tmp_path / "virtual.h5"
    for source, good in ((".", True), (str(tmp_path / "pipe"), False)):
        layout = h5py.VirtualLayout((2, 3, 4), np.float32)
        layout[:] = h5py.VirtualSource(source, "numbers", (2, 3, 4))
        with h5py.File(path, "w") as file:
            file["numbers"] = np.ones((2, 3, 4), np.float32)
            file.create_virtual_dataset("tensor", layout)
        if good:
            assert (open_dataset(path)["u"].values == 1).all()
        else:
            os.mkfifo(tmp_path / "pipe")
            with pytest.raises(ValueError, match=r"keeps the numbers of tensor in another file \(.*pipe\)"):
                open_dataset(path)


def test_no_memory_is_told_from_other_refusals():
    """HDF5 says of a length beyond all memory that the allocation failed; under the limit it says so early."""

    def refuse(text):
        raise OSError(f"Can't synchronously read data ({text})")

    with pytest.raises(TooMuchMemory):
        _try(refuse, "memory allocation failed for chunk")
    assert _try(refuse, "address of object past end of allocation") is None and _try(lambda: 3) == 3


def test_a_text_that_states_gigabytes_is_refused(tmp_path):
    path = write_sample("the-well", tmp_path / "a.h5")
    content = bytearray(path.read_bytes())
    heap = content.index(b"GCOL")
    # references to the heap are a length, the heap's place and a number: every text now claims three gigabytes
    place, changed = content.find(heap.to_bytes(8, "little")), 0
    while place >= 0:
        length, number = (int.from_bytes(content[at : at + 4], "little") for at in (place - 4, place + 8))
        if 0 < length < 4096 and 0 < number < 500:
            content[place - 4 : place], changed = (3 << 30).to_bytes(4, "little"), changed + 1
        place = content.find(heap.to_bytes(8, "little"), place + 8)
    assert changed > 5
    path.write_bytes(content)
    with pytest.raises(ValueError, match="takes bytes of memory, more than"):
        open_dataset(path)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_list_of_dimensions_of_absurd_length_is_refused(tmp_path, axis):
    """HDF5 believes the length and reads on behind the list: whether that is survived depends on the process."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["u"] = np.zeros((3, 4))
        for i, name in enumerate("xy"):
            file[name] = np.arange(3.0 + i)
            file[name].make_scale(name)
            file["u"].dims[i].attach_scale(file[name])
    content = bytearray(path.read_bytes())
    heap = (1).to_bytes(4, "little") + content.index(b"GCOL").to_bytes(8, "little")
    lists = [at for at in range(len(content)) if content.startswith(heap, at)]
    assert len(lists) >= 2
    damaged = lists[axis]
    content[damaged : damaged + 4] = (5000).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"attaches dimensions to an array that the HDF5 library cannot list|SIG"):
        open_dataset(path)


def test_more_than_1024_open_files_stop_no_check(guard, tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] not in (-1, resource.RLIM_INFINITY) and before[1] < 1200:
        pytest.skip("this system allows no more than 1200 open files")
    sound, files = write_sample("pdebench-1d", tmp_path / "a.h5"), []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 1200), before[1]))
    try:
        files = [open(os.devnull) for _ in range(1100)]
        guard.check(sound)
        assert guard.process.stdout.fileno() > 1024
    finally:
        for file in files:
            file.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
