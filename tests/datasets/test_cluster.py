"""Parts on a dask cluster: whatever dies, every sample is there once and has the bytes of the serial run."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import warm

pytest.importorskip("distributed")
pytest.importorskip("cryptography")

import cloudpickle
import dask
import distributed
from distributed import Client, LocalCluster

from data_gen.darcy import DarcyConfig
from data_gen.darcy import run as run_darcy
from sciops.datasets.generation import cluster as on_cluster
from sciops.datasets.generation import cluster_client, cluster_local, writer
from sciops.datasets.generation.cluster_local import client_certificates, local_cluster
from sciops.datasets.generation.cluster_scratch import scratch_path
from sciops.datasets.generation.writer import Cluster, Plan, generate
from sciops.datasets.native import assembly, content_hash, parts
from sciops.files.whole_files import hidden
from sciops.grids import Grid


def plan_in(folder: Path, name: str = "out.h5", **changes) -> Plan:
    return replace(Plan(folder / name, 22, 2, {"law": 1}, {"r7": Grid((7,), centering="periodic")}, "test"), **changes)


def make(log: Path, seconds: float, ranges) -> dict[str, np.ndarray]:
    """A field per sample, a note of each call, and for sample 6 what the log's folder asks for."""
    numbers = np.concatenate([np.arange(start, stop) for start, stop in ranges])
    time.sleep(seconds)
    if (log / "deadly").exists() and (6 in numbers or (log / "deadly").stat().st_size):
        os.kill(os.getpid(), signal.SIGKILL)
    if 6 in numbers and (log / "wrong").exists():
        raise ValueError("sample 6 has no solution")
    (log / f"{numbers[0]}-{os.getpid()}-{time.time_ns()}").touch()
    return {"r7/u": np.stack([np.random.default_rng(i).normal(size=7) for i in numbers]), "r7/seed": numbers}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log").mkdir()
    return tmp_path / "log"


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("serial")
    return content_hash(generate(plan_in(folder), functools.partial(make, folder, 0), progress=False))


@pytest.fixture(scope="module", autouse=True)
def forked():
    """Workers of clusters that are begun here, and those that replace the killed, have everything imported."""
    with warm.dask_workers():
        yield


def listening() -> set[int]:
    """Ports of this process and of those that it has begun."""
    here = psutil.Process()
    tree = [here, *here.children(recursive=True)]
    return {one.laddr.port for process in tree for one in process.net_connections("tcp") if one.status == "LISTEN"}


@pytest.fixture(scope="module")
def before(forked) -> set[int]:
    """Ports that tests of other files have left open."""
    return listening()


@pytest.fixture(scope="module")
def cluster(before):
    # the death of one worker is enough for the scheduler to give a part up: what follows is ours
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        local_cluster(2) as local,
        dask.config.set(client_certificates(local.security)),
    ):
        yield local


@pytest.fixture(scope="module")
def pids(cluster):
    def now() -> list[int]:
        return [nanny.pid for nanny in cluster.workers.values() if nanny.pid]

    return now


@pytest.mark.parametrize("name", ["out.h5", "out.zarr"])
def test_workers_write_what_one_process_writes(tmp_path: Path, log: Path, cluster, reference: str, pids, name) -> None:
    if name == "out.zarr":
        pytest.importorskip("zarr")
    plan = plan_in(tmp_path, name)
    there = Cluster(scheduler=cluster.scheduler_address)
    assert generate(plan, functools.partial(make, log, 0), cluster=there, progress=False) == plan.output
    assert content_hash(plan.output) == reference
    calls = [note.name.split("-") for note in log.iterdir()]
    assert sorted(int(first) for first, *_ in calls) == list(range(0, 22, 2))  # every part once
    assert {int(pid) for _, pid, _ in calls} == set(pids())  # and by both workers
    if name == "out.zarr":
        assert len(list((plan.output / "r7/u").glob("c.*"))) == plan.chunks
    assert sorted(os.listdir(tmp_path)) == ["log", name]


def test_a_killed_worker_costs_its_part_alone(tmp_path: Path, log: Path, cluster, reference: str, pids) -> None:
    plan, victim = plan_in(tmp_path), pids()[0]

    def kill() -> None:
        while len(list(plan.parts.glob("part-*"))) < 4:
            time.sleep(0.01)
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    there = Cluster(scheduler=cluster.scheduler_address)
    generate(plan, functools.partial(make, log, 0.15), cluster=there, progress=False)
    killer.join()
    assert content_hash(plan.output) == reference
    made = [int(note.name.split("-")[0]) for note in log.iterdir()]
    assert sorted(set(made)) == list(range(0, 22, 2)) and len(made) <= 12
    assert victim not in pids()


def test_a_part_that_ends_every_worker_is_named_and_the_rest_is_kept(tmp_path: Path, log: Path, cluster) -> None:
    plan = plan_in(tmp_path)
    (log / "deadly").touch()
    with pytest.raises(RuntimeError, match=r"samples 6 … 7 ended every worker .*--chunk, now 2") as caught:
        generate(
            plan, functools.partial(make, log, 0), cluster=Cluster(scheduler=cluster.scheduler_address), progress=False
        )
    assert "\n" not in str(caught.value) and not plan.output.exists()
    assert sum(plan.part(i).exists() for i in range(11)) == 10  # also those that the dying workers were to make next


def test_where_every_part_ends_its_worker_few_are_tried(tmp_path: Path, log: Path, cluster, monkeypatch) -> None:
    plan, given = plan_in(tmp_path, samples=200), []
    (log / "deadly").write_text("all")
    submit = Client.submit
    monkeypatch.setattr(
        Client, "submit", lambda self, *args, **how: given.append(args[2]) or submit(self, *args, **how)
    )
    with pytest.raises(RuntimeError, match=r"samples \d+ … \d+ ended every worker"):
        generate(
            plan, functools.partial(make, log, 0), cluster=Cluster(scheduler=cluster.scheduler_address), progress=False
        )
    assert len(given) < 100 + 25  # every one once, few again, and one alone
    assert not plan.output.exists() and not plan.parts.exists()


def test_what_make_raises_comes_back_and_the_rest_goes_on_here(tmp_path: Path, log: Path, cluster, reference) -> None:
    plan = plan_in(tmp_path)
    (log / "wrong").touch()
    with pytest.raises(ValueError, match="sample 6 has no solution"):
        generate(
            plan, functools.partial(make, log, 0), cluster=Cluster(scheduler=cluster.scheduler_address), progress=False
        )
    (log / "wrong").unlink()
    before = len(list(plan.parts.glob("part-*")))
    generate(plan, functools.partial(make, log, 0), progress=False)
    assert content_hash(plan.output) == reference
    here = [note for note in log.iterdir() if note.name.split("-")[1] == str(os.getpid())]
    assert 1 <= len(here) <= 11 - before  # a worker may have finished one more meanwhile


def test_the_output_grows_while_workers_of_this_machine_make_its_parts(
    tmp_path: Path, log: Path, cluster, reference: str, monkeypatch
) -> None:
    @contextlib.contextmanager
    def client(asked):
        with Client(cluster, set_as_default=False) as there:
            yield there

    monkeypatch.setattr(on_cluster, "connected", client)
    monkeypatch.setattr(assembly, "read_part", lambda *arguments: pytest.fail("read at the end"))
    plan = plan_in(tmp_path)
    generate(plan, functools.partial(make, log, 0), cluster=Cluster(workers=2), progress=False)
    assert content_hash(plan.output) == reference


def test_what_is_refused_at_once_claims_no_folder(tmp_path: Path, log: Path, cluster) -> None:
    plan, address = plan_in(tmp_path), cluster.scheduler_address
    with pytest.raises(ValueError, match="made nothing for 2 samples"):
        generate(plan, nothing, cluster=Cluster(scheduler=address), progress=False)
    assert not plan.parts.exists()


def nothing(ranges) -> dict[str, np.ndarray]:
    return {}


def test_a_worker_that_cannot_do_it_says_why(tmp_path: Path, monkeypatch) -> None:
    plan = plan_in(tmp_path)
    with pytest.raises(OSError, match=r"does not see .*out.h5.parts/plan.json: --output must lie in a folder that all"):
        on_cluster._part_on_worker(cloudpickle.dumps((plan, nothing, dict(on_cluster.versions()))), 0)
    for name, told in (
        ("sciops", "has sciops .* and this process 9.9"),
        ("numba", "has numba .* and this process 9.9"),
    ):
        with pytest.raises(ValueError, match=told + ".*install the same versions"):
            task = cloudpickle.dumps((plan, nothing, {**on_cluster.versions(), name: "9.9"}))
            on_cluster._part_on_worker(task, 0)


@pytest.mark.parametrize("name", ["out.h5", "out.zarr"])
def test_a_worker_makes_a_part_again_that_says_it_is_another(tmp_path: Path, log: Path, name: str) -> None:
    if name.endswith(".zarr"):
        pytest.importorskip("zarr")
    plan, make_part = plan_in(tmp_path, name), functools.partial(make, log, 0)
    writer.write_parts(plan, make_part, shard=(0, 10), progress=False)  # parts 0 and 10
    shutil.copy(plan.part(10), plan.part(3))
    for shard in (plan.parts / "data.zarr").rglob("c.10*"):
        shutil.copy(shard, shard.with_name(shard.name.replace("c.10", "c.3", 1)))
    task = cloudpickle.dumps((plan, make_part, dict(on_cluster.versions())))
    before = len(list(log.iterdir()))
    assert not writer.storage(plan).is_sound(plan, 3) and on_cluster._part_on_worker(task, 3) == 3
    assert len(list(log.iterdir())) == before + 1
    np.testing.assert_array_equal(writer.storage(plan).read_part(plan, 3)["r7/seed"], [6, 7])


def test_a_scheduler_that_is_not_there_is_one_line(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(cluster_client, "_ANSWER", 0.5)
    plan = plan_in(tmp_path)
    began = []
    monkeypatch.setattr(distributed.Client, "__init__", recorded(distributed.Client.__init__, began))
    for address in ("tcp://127.0.0.1:9", "nonsense", "nonsense://x", "127.0.0.1:notaport", "tcp://"):
        told = "no answer within" if address.endswith(":9") else "that is not an address"
        with pytest.raises(OSError, match=told + r" .*`dask scheduler`") as caught:
            generate(plan, nothing, cluster=Cluster(scheduler=address, insecure=True), progress=False)
        assert "\n" not in str(caught.value) and not plan.parts.exists()
    assert began == ["tcp://127.0.0.1:9"]  # a client that learns it later goes on trying after the error


def recorded(function, calls: list):
    def call(self, address, **options):
        calls.append(address)
        return function(self, address, **options)

    return call


def test_a_scheduler_without_workers_is_one_line(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(cluster_client, "_WORKERS", 0.3)
    with LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL) as empty:
        with pytest.raises(OSError, match="has no workers after .*dask worker tcp://"):
            there = Cluster(scheduler=empty.scheduler_address, insecure=True)
            generate(plan_in(tmp_path), nothing, cluster=there, progress=False)


class LosingClient:
    """Loses the result of the first part once, as a scheduler does whose worker died after it made a part."""

    status = "running"

    def __init__(self, then: str) -> None:
        self.then, self.keys = then, []

    def submit(self, function, task, index, *, key, **options):
        self.keys.append(key)
        status = "lost" if index == 0 and len(self.keys) <= 2 else "finished"
        if status == "lost":
            self.status = self.then
        future = types.SimpleNamespace(key=key, status=status)
        future.add_done_callback = lambda done: done(future)
        return future


def test_a_part_whose_result_is_lost_with_its_worker_is_asked_for_again(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    client = LosingClient("running")
    assert sorted(on_cluster._results(client, Cluster(workers=2), plan, print, range(2))) == [0, 1]
    assert len(set(client.keys)) == 3
    with pytest.raises(OSError, match="connection to the local cluster was lost"):
        list(on_cluster._results(LosingClient("connecting"), Cluster(workers=2), plan, print, range(2)))


def test_a_scheduler_that_goes_away_is_one_line(tmp_path: Path, log: Path, reference: str) -> None:
    plan = plan_in(tmp_path)
    code = "from distributed import Scheduler; import asyncio\nasync def main():\n s = await Scheduler(port=0, "
    code += "dashboard_address='127.0.0.1:0', host='127.0.0.1'); print(s.address, flush=True); await s.finished()\n"
    (folder := tmp_path / "processes").mkdir()
    process, worker = warm.begin(["-c", code + "asyncio.run(main())"], folder), None
    try:
        deadline = time.monotonic() + 60
        while not process.stdout.endswith("\n"):
            assert time.monotonic() < deadline and process.poll() is None, process.stderr
            time.sleep(0.01)
        address = process.stdout.strip()
        command = "from distributed.cli.dask_worker import main; main()"
        options = [address, "--nthreads", "1", "--no-dashboard", "--no-nanny", "--death-timeout", "5"]
        worker = warm.begin(["-c", command, *options], folder, env={"PYTHONPATH": os.pathsep.join(sys.path)})
        killer = threading.Thread(target=_kill_after, args=(process, plan, 3))
        killer.start()
        there = Cluster(scheduler=address, insecure=True)
        with pytest.raises(OSError, match="connection to tcp://.* was lost; the same command resumes") as caught:
            generate(plan, functools.partial(make, log, 0.1), cluster=there, progress=False)
        killer.join()
        assert "\n" not in str(caught.value)
    finally:
        for child in (process, worker):
            if child is not None:
                child.kill()
                child.wait()
    generate(plan, functools.partial(make, log, 0), progress=False)
    assert content_hash(plan.output) == reference


def _kill_after(process: warm.Running, plan: Plan, parts: int) -> None:
    while len(list(plan.parts.glob("part-*"))) < parts:
        time.sleep(0.01)
    process.kill()


def test_missing_dask_is_one_line(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    plan = plan_in(tmp_path)
    with pytest.raises(ImportError, match=r"need dask: pip install 'sciops\[cluster\]'"):
        generate(plan, nothing, cluster=Cluster(workers=1), progress=False)
    assert not plan.parts.exists()


@pytest.mark.slow
def test_an_error_is_told_once_and_no_more_workers_than_parts_are_started(
    tmp_path: Path, log: Path, capfd, monkeypatch
) -> None:
    started = []

    def local(workers: int):
        started.append(workers)
        return local_cluster(workers)

    monkeypatch.setattr(cluster_local, "local_cluster", local)
    (log / "wrong").touch()
    with pytest.raises(ValueError, match="sample 6 has no solution"):
        plan = plan_in(tmp_path, samples=8, chunk=4)
        generate(plan, functools.partial(make, log, 0), cluster=Cluster(workers=9), progress=False)
    said = capfd.readouterr()
    assert started == [2]
    assert "sample 6" not in said.out + said.err and "Traceback" not in said.err, said


def test_the_next_part_is_made_while_one_waits_for_the_disk(tmp_path: Path, log: Path, reference: str) -> None:
    write, waits, at_once = parts.write_part, [], []

    def slowly(*arguments) -> None:
        """Until one more part has been made, if there is one to make."""
        at_once.append(len(waits))
        waits.append(True)
        wanted, deadline = min(len(at_once) + 1, 11), time.monotonic() + 20
        while len(list(log.iterdir())) < wanted and time.monotonic() < deadline:
            time.sleep(0.01)
        write(*arguments)
        assert len(list(log.iterdir())) >= wanted, "nothing is made while the disk is at work"
        waits.pop()

    options = {"dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, **options) as local,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(parts, "write_part", slowly)
        there = Cluster(scheduler=local.scheduler_address)
        generate(plan_in(tmp_path), functools.partial(make, log, 0), cluster=there, progress=False)
    assert content_hash(tmp_path / "out.h5") == reference
    assert at_once == [0] * 11  # one write at a time


@pytest.mark.parametrize("module", ["distributed.gc", "weakref"])
def test_an_interrupt_that_a_callback_swallows_is_heard(module: str, tmp_path: Path, log: Path, cluster) -> None:
    """As Python does with one that falls into a callback of its garbage collector, where dask's raises none."""
    plan, before = plan_in(tmp_path), signal.getsignal(signal.SIGINT)

    there = Cluster(scheduler=cluster.scheduler_address)
    parts_made = on_cluster.make_on(there, plan, functools.partial(make, log, 0), range(11))
    next(parts_made)
    exec("signal.raise_signal(signal.SIGINT)", {"__name__": module, "signal": signal})
    with pytest.raises(KeyboardInterrupt):
        list(parts_made)
    assert signal.getsignal(signal.SIGINT) is before


LONG = DarcyConfig(samples=240, resolutions=(33, 17), modes=12, chunk=2, threads=1, progress=False)


@pytest.fixture(scope="module")
def long_reference(tmp_path_factory) -> str:
    return content_hash(run_darcy(replace(LONG, output=tmp_path_factory.mktemp("whole") / "whole.h5")))


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_client_that_ends_leaves_no_worker_and_the_command_goes_on(
    tmp_path: Path, end: signal.Signals, long_reference: str
) -> None:
    (folder := tmp_path / "data").mkdir()
    config = replace(LONG, output=folder / "x.h5")
    options = ["--samples", "240", "--resolutions", "33", "17", "--modes", "12", "--chunk", "2", "--no-progress"]
    options += ["--workers", "1", "--threads", "1", "--output", "x.h5"]
    process = subprocess.Popen(
        [sys.executable, "-m", "data_gen.darcy", *options],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    parts, deadline = folder / "x.h5.parts", time.monotonic() + 300
    while len(list(parts.glob("part-*.npz"))) < 4:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    (os.killpg if end == signal.SIGINT else os.kill)(process.pid, end)  # Ctrl-C reaches the whole group
    said = process.communicate(timeout=60)[1]
    if end == signal.SIGINT:
        assert process.returncode == 1 and "run the same command again to resume" in said, said
        assert "Traceback" not in said, said
    deadline = time.monotonic() + 30
    while _alive(process.pid):
        assert time.monotonic() < deadline, "workers outlive their client"
        time.sleep(0.1)
    assert 4 <= len(list(parts.glob("part-*.npz"))) < 120 and not config.output.exists()
    assert content_hash(run_darcy(config)) == long_reference


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_scheduler_in_use_is_left_as_it_was(cluster) -> None:
    with Client(cluster, set_as_default=False) as client:
        assert client.submit(sum, (1, 2)).result() == 3


_NEIGHBOUR = """
import asyncio, sys
from distributed import Client, Security
from distributed.core import Server, rpc

WAYS = {"plain": ("tcp", Security()), "bare": ("tls", Security()), "other": ("tls", Security.temporary())}

async def reached(port, way):
    scheme, security = WAYS[way]
    address = f"{scheme}://127.0.0.1:{port}"
    try:
        arguments = security.get_connection_args("client")
        async with rpc(address, timeout=3, connection_args=arguments) as there:
            await asyncio.wait_for(there.identity(), 3)
            return True
    except Exception:  # web pages answer something else
        pass
    try:
        async with Client(address, asynchronous=True, timeout=1.5, security=security) as client:
            await client.run(int)
            return True
    except Exception:  # web pages answer something else
        return False

async def main():
    async with Server({}) as open_to_all:
        await open_to_all.listen("tcp://127.0.0.1:0")
        ports = [open_to_all.port, *map(int, sys.argv[1:])]
        asked = [(port, way) for port in ports for way in WAYS]
        found = await asyncio.gather(*(reached(*one) for one in asked))
        print([way if port == open_to_all.port else f"{port} {way}" for (port, way), yes in zip(asked, found) if yes])

asyncio.run(main())
"""


def test_no_other_process_reaches_a_port_of_the_cluster(cluster, before) -> None:
    """Plainly, by TLS without a certificate, or with one of its own making; its own server does answer it."""
    deadline = time.monotonic() + 30
    while any(nanny.status.name != "running" for nanny in cluster.workers.values()):  # one that is begun anew
        assert time.monotonic() < deadline
        time.sleep(0.05)
    ports = listening() - before
    served = [cluster.scheduler_address] + [nanny.address for nanny in cluster.workers.values()]
    served += [nanny.worker_address for nanny in cluster.workers.values()]
    assert {int(address.rpartition(":")[2]) for address in served} == ports  # and no web pages
    command = [sys.executable, "-c", _NEIGHBOUR, *map(str, ports)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert answer.stdout.strip() == "['plain']", answer.stdout + answer.stderr


def test_files_of_the_workers_are_those_of_the_user_alone_and_do_not_stay(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with local_cluster(1) as local:
        (folder,) = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        with Client(local, set_as_default=False) as client:
            (worker,) = client.run(lambda dask_worker: dask_worker.local_directory).values()
        assert folder in Path(worker).parents
    assert list(tmp_path.iterdir()) == []


def test_folders_of_workers_whose_process_was_killed_are_removed(tmp_path: Path, monkeypatch) -> None:
    """Also where nothing is left for workers to do."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gone = subprocess.Popen(["true"])
    gone.wait()
    mine = hidden(scratch_path(), "scratch")
    left = mine.with_name(mine.name.replace(f".{os.getpid()}.", f".{gone.pid}."))
    for folder in (mine, left):
        (folder / "dask-scratch-space").mkdir(parents=True)
    plan = plan_in(tmp_path / "data")
    writer.write_parts(plan, functools.partial(make, tmp_path, 0), progress=False)
    writer.write_parts(plan, functools.partial(make, tmp_path, 0), cluster=Cluster(workers=1), progress=False)
    assert mine.exists() and not left.exists()


def test_a_scheduler_without_certificates_is_refused_unless_asked_for(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(distributed.Client, "__init__", recorded(distributed.Client.__init__, began := []))
    plan = plan_in(tmp_path)
    for address in ("tcp://127.0.0.1:9", "127.0.0.1:9", "ws://127.0.0.1:9", "wss://127.0.0.1:9"):
        with pytest.raises(ValueError, match=r"asks for no certificate.* as you; .*--insecure-scheduler") as caught:
            generate(plan, nothing, cluster=Cluster(scheduler=address), progress=False)
        assert "\n" not in str(caught.value) and not plan.parts.exists()
    assert began == []


def test_certificates_that_are_missing_or_wrong_are_one_line(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(cluster_client, "_ANSWER", 0.5)
    plan, there = plan_in(tmp_path), Cluster(scheduler="tls://127.0.0.1:9")
    names = ("distributed.comm.tls.ca-file", "distributed.comm.tls.client.cert", "distributed.comm.tls.client.key")
    (tmp_path / "no.pem").write_text("no certificate")
    for values, told in (
        ((None, None, None), "needs certificates: set DASK_DISTRIBUTED__COMM__TLS__CA_FILE and .*CLIENT__CERT to"),
        ((str(tmp_path / "absent.pem"),) * 3, r"the certificates .*absent.pem cannot be used \(.*No such file"),
        ((str(tmp_path / "no.pem"),) * 3, "the certificates .*no.pem cannot be used .*PEM"),
    ):
        with dask.config.set(dict(zip(names, values))), pytest.raises(ValueError, match=told) as caught:
            generate(plan, nothing, cluster=there, progress=False)
        assert "\n" not in str(caught.value) and not plan.parts.exists()


def test_the_key_of_a_local_cluster_is_in_one_private_folder_alone(cluster):
    """What dask is given in memory it writes into temporary folders, where a kill leaves it."""
    held = {str(getattr(cluster.security, f"tls_{role}_key")) for role in ("client", "scheduler", "worker")}
    (key,) = map(Path, held)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    assert {cluster.security.tls_ca_file, cluster.security.tls_worker_cert} == {str(key.with_name("cert.pem"))}


def test_a_clock_that_is_set_back_keeps_no_worker_out() -> None:
    """A worker that is started again shows the certificate of the run, which must not begin to be valid later."""
    from cryptography import x509

    with local_cluster(0) as local:
        certificate = x509.load_pem_x509_certificate(Path(local.security.tls_worker_cert).read_bytes())
    assert certificate.not_valid_before_utc.year < 1980 and certificate.not_valid_after_utc.year > 2100


def test_without_cryptography_no_cluster_is_started(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    plan = plan_in(tmp_path)
    with pytest.raises(ImportError, match=r"needs cryptography, .*pip install 'sciops\[cluster\]'"):
        generate(plan, nothing, cluster=Cluster(workers=1), progress=False)
    assert not plan.parts.exists()
