"""Worker processes that do not outlive the process that began them."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import threading


def end_with_parent(*_: object) -> None:
    """Ends this worker process, with status 1, as soon as the process that began it is gone.

    For the ``initializer`` of a pool and the ``worker_init_fn`` of a DataLoader, whose arguments it ignores. A parent
    that is killed cannot stop its workers: without this they go on computing, and may write into the folder of the run
    that is begun again. A daemon thread waits for the pipe that `multiprocessing` keeps open to the parent, whatever
    the start method. In a process that `multiprocessing` did not begin it does nothing.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent.sentinel,), name="end-with-parent", daemon=True).start()


def _exit_after(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)
