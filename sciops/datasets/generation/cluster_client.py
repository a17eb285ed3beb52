"""The cluster itself: begun here or joined, and what is said when it, its workers or this process end."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

_ANSWER = 10.0  # seconds for a scheduler to answer
_WORKERS = 60.0  # seconds for its first worker to appear


@dataclass(frozen=True)
class Cluster:
    """Where parts are made: by `workers` processes of a dask cluster here, or by those of a running `scheduler`.

    insecure : whether the scheduler may be one that neither encrypts nor asks for certificates
    """

    workers: int = 0
    scheduler: str | None = None
    insecure: bool = False


@contextlib.contextmanager
def connected(cluster: Cluster) -> Iterator[Any]:
    """A client of the cluster, begun here with its workers or joined; for the time of the context.

    Raises ImportError without dask or cryptography; ValueError for a scheduler that asks for no certificate, unless
    ``cluster.insecure``, and for certificates that are missing; OSError for a scheduler that does not answer or has no
    workers.
    """
    try:
        import dask
        from distributed import Client

        from sciops.datasets.generation.cluster_local import local_cluster
    except ImportError:
        raise ImportError("--workers and --scheduler need dask: pip install 'sciops[cluster]'") from None
    with contextlib.ExitStack() as stack:
        if cluster.scheduler is None:
            # before a part is given out once more, as `_cluster` counts
            stack.enter_context(dask.config.set({"distributed.scheduler.allowed-failures": 2}))
            local = stack.enter_context(local_cluster(cluster.workers))
            client = stack.enter_context(Client(local, set_as_default=False))
            client.register_plugin(_deaf_to_interrupts())
            yield client
            return
        client = stack.enter_context(_client_of(cluster))
        try:
            client.wait_for_workers(1, timeout=_WORKERS)
        except TimeoutError:
            raise OSError(
                f"--scheduler {cluster.scheduler} has no workers after {_WORKERS:.0f} s; start some with "
                f"`dask worker {cluster.scheduler} --nthreads 1`, with the same certificates"
            ) from None
        yield client


def _client_of(cluster: Cluster) -> Any:
    """A client of the running scheduler; what `connected` raises."""
    from distributed import Client

    from sciops.datasets.generation.cluster_scheduler import check_address, security_for

    address = cluster.scheduler
    try:
        check_address(address)  # a client that learns it later takes half a minute to end
    except (ValueError, TypeError) as error:
        raise _unanswered(address, "that is not an address", error) from None
    security = security_for(address, insecure=cluster.insecure)
    try:
        return Client(address, timeout=_ANSWER, set_as_default=False, security=security)
    except (OSError, ValueError, TypeError) as error:
        raise _unanswered(address, f"no answer within {_ANSWER:.0f} s", error) from None


def _unanswered(address: str | None, what: str, error: Exception) -> OSError:
    text = " ".join(str(error).split())[:120]
    return OSError(
        f"--scheduler {address}: {what} ({text}); start one with `dask scheduler` and certificates, and give "
        "the address it prints, such as tls://host:8786"
    )


@contextlib.contextmanager
def interrupts() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets besides what it does.

    In a callback of the garbage collector, of which dask has one, or of a weak reference it sets the event alone:
    Python prints and drops an exception there.
    """
    event = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield event
        return

    def handler(number: int, frame: FrameType | None) -> None:
        event.set()
        if not _collecting(frame):
            before(number, frame)

    signal.signal(signal.SIGINT, handler)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)


_CALLED_BACK = ("distributed.gc", "weakref", "_weakrefset")  # modules whose functions the collector calls


def _collecting(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__") in _CALLED_BACK:
            return True
        frame = frame.f_back
    return False


def _deaf_to_interrupts() -> Any:
    """Ctrl-C reaches every process of a terminal: the client ends the workers, they need not say so at length."""
    from distributed import WorkerPlugin

    class Deaf(WorkerPlugin):
        def setup(self, worker: Any) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    return Deaf()


def look(client: Any, cluster: Cluster, without: float | None) -> float | None:
    """Since when no worker is there, None where one is; says so once.

    Raises OSError when the scheduler is gone, or the workers that it began here have ended for good.
    """
    if client.status != "running":
        raise lost(cluster)
    try:
        left = bool(client.scheduler_info(n_workers=1)["workers"])
    except TypeError:  # before n_workers
        left = bool(client.scheduler_info()["workers"])
    if left:
        return None
    now = time.monotonic()
    if without is None:
        print(f"no worker is left at {cluster.scheduler or 'the local cluster'}; waiting for one")
        return now
    if cluster.scheduler is None and now - without > _WORKERS:
        raise OSError(
            f"all workers ended and none came back in {_WORKERS:.0f} s (not enough memory?); give them less to do at "
            "once with --chunk or --workers: the same command resumes with the missing parts"
        )
    return without


def lost(cluster: Cluster) -> OSError:
    """What is raised where the scheduler is gone."""
    return OSError(
        f"the connection to {cluster.scheduler or 'the local cluster'} was lost; the same command resumes with the "
        "missing parts"
    )


def told(error: BaseException, cluster: Cluster) -> BaseException:
    """What is raised for an error of a worker: itself, unless what it lacks can be said."""
    if isinstance(error, ImportError) and "pip install" not in str(error):
        return ImportError(
            f"a worker of {cluster.scheduler or 'the local cluster'} lacks something ({error}); install the same "
            "sciops there, with its extras"
        )
    if "deserialization of the task graph" in str(error):
        return ImportError(
            f"the scheduler {cluster.scheduler} cannot import sciops: start it where the same is installed"
        )
    return error
