"""Batches in a given order; those on a disk are read ahead, while the step before them runs."""

from __future__ import annotations

import pickle
import warnings
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from sciops.processes import end_with_parent

Plan = Sequence[tuple[int, np.ndarray]]  # (number of the data set, indices of the samples in it) of each batch
Batches = Generator[dict[str, Tensor]]
_AHEAD = 2  # batches read before they are asked for, by the thread or by each worker


class Loader(AbstractContextManager):
    """Reads the batches of several data sets.

    datasets : with ``len``, ``.batch(indices)``; ``.lazy`` says whether that reads from a disk (False when absent)
    workers : 0 reads lazy data sets in a thread. n > 0 reads all but those that say ``lazy = False`` in n processes
        of torch's DataLoader, which live until the loader is closed
    start_method : "spawn", "fork" or "forkserver", of these processes

    Fields in memory are taken from there in the calling thread, without any of this. The batches are the same, in the
    same order, however they are read. What `batch` raises is raised by the iteration, in one line.

    A context manager: at its end processes are gone, threads too, and lazy data sets closed.
    """

    def __init__(self, datasets: Sequence[Any], *, workers: int = 0, start_method: str = "spawn") -> None:
        self.datasets, self._workers, self._start_method = list(datasets), workers, start_method
        self._pool: Any = None
        self._order = _Order()

    def batches(self, plan: Plan) -> Batches:
        """The batches of the plan; close the iterator where it is left early (`contextlib.closing`)."""
        numbers = {number for number, _ in plan}
        if self._workers and not all(self._in_memory(number) for number in numbers):
            return self._from_workers(plan)
        if any(getattr(self.datasets[number], "lazy", None) for number in numbers):
            return self._from_thread(plan)
        return (self._read(item) for item in plan)

    def close(self) -> None:
        if self._pool is not None and self._pool._iterator is not None:
            self._pool._iterator._shutdown_workers()
        self._pool = None
        for dataset in self.datasets:
            if getattr(dataset, "lazy", False) and hasattr(dataset, "close"):
                dataset.close()

    def __exit__(self, kind: type | None, error: BaseException | None, _: Any) -> None:
        self.close()
        # torch raises it wherever the main thread is when it hears of it
        if isinstance(error, RuntimeError) and str(error).startswith("DataLoader worker"):
            raise RuntimeError(
                f"{' '.join(str(error).split()).rstrip('.')}. It read fields (loader_workers={self._workers}, "
                f"start_method={self._start_method!r}): a script that trains needs 'if __name__ == \"__main__\":' for "
                "spawn and forkserver, and memory for each of them; loader_workers=0 reads in a thread"
            ) from None

    def _in_memory(self, number: int) -> bool:
        return getattr(self.datasets[number], "lazy", None) is False

    def _read(self, item: tuple[int, np.ndarray]) -> dict[str, Tensor]:
        number, indices = item
        return self.datasets[number].batch(indices)

    def _from_thread(self, plan: Plan) -> Batches:
        thread = ThreadPoolExecutor(1, thread_name_prefix="sciops-reads-ahead")
        try:
            waiting = deque(thread.submit(self._read, item) for item in plan[:_AHEAD])
            for item in [*plan[_AHEAD:], *[None] * len(waiting)]:
                batch = waiting.popleft().result()
                if item is not None:
                    waiting.append(thread.submit(self._read, item))
                yield batch
        finally:
            thread.shutdown(cancel_futures=True)

    def _from_workers(self, plan: Plan) -> Batches:
        if self._pool is None:
            # what is held in memory is not sent to every process
            held = [self._in_memory(number) for number in range(len(self.datasets))]
            self._pool = DataLoader(
                _Batches([None if kept else dataset for kept, dataset in zip(held, self.datasets)]),
                batch_size=None,
                sampler=self._order,
                num_workers=self._workers,
                multiprocessing_context=self._start_method,
                persistent_workers=True,
                prefetch_factor=_AHEAD,
                worker_init_fn=end_with_parent,
                generator=torch.Generator(),  # its own: torch's global one belongs to dropout
            )
        self._order.plan = [item for item in plan if not self._in_memory(item[0])]
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Got pickle error")  # torch's own, of several lines
                batches = iter(self._pool)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise TypeError(
                f"loader_workers={self._workers}: the data set cannot be sent to a process that begins with "
                f"{self._start_method!r} ({error}); pass loader_workers=0 or start_method='fork'"
            ) from None
        for item in plan:
            batch = self._read(item) if self._in_memory(item[0]) else next(batches)
            if isinstance(batch, _Failure):
                raise batch.error
            yield batch


class _Order:
    """The plan of this epoch, where a DataLoader looks for it."""

    plan: Plan = ()

    def __iter__(self) -> Iterator[tuple[int, np.ndarray]]:
        return iter(self.plan)

    def __len__(self) -> int:
        return len(self.plan)


class _Batches(Dataset):
    """Item (number, indices): that batch, or the `_Failure` to read it, since a DataLoader adds a page to errors."""

    def __init__(self, datasets: Sequence[Any]) -> None:
        self.datasets = datasets

    def __getitem__(self, item: tuple[int, np.ndarray]) -> Any:
        number, indices = item
        try:
            return self.datasets[number].batch(indices)
        except Exception as error:
            return _Failure(error)


class _Failure:
    """An error that crosses processes: as itself where it can, by its words otherwise."""

    def __init__(self, error: Exception) -> None:
        try:
            pickle.loads(pickle.dumps(error))
            self.error = error
        except Exception:
            self.error = RuntimeError(f"{type(error).__name__}: {error}")
