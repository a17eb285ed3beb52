"""The numbers of every epoch in TensorBoard and trackio, besides ``log.jsonl``, which always has them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sciops.files.json_files import plain
from sciops.training.config import TrainConfig

Log = Callable[[dict[str, float], int], None]  # of the numbers of an epoch, and its number


class Trackers(ExitStack):
    """The trackers that ``config.track`` names, opened with the first epoch that is logged; a context manager.

    tensorboard : event files in ``folder/tensorboard``. What an earlier call logged of epochs that are repeated is
        hidden
    trackio : a run of the project "sciops", named by the folder; a resumed training continues it

    writes : whether this process logs; the others do nothing

    Raises ImportError for a tracker that is not installed, with the command that installs it.
    """

    def __init__(self, config: TrainConfig, *, writes: bool) -> None:
        super().__init__()
        for name in config.track:
            if importlib.util.find_spec(name) is None:
                raise ImportError(f"track={name!r} needs {name}: pip install 'sciops[track]'")
        self._config, self._names = config, tuple(dict.fromkeys(config.track)) if writes else ()
        self._open: list[Log] = []

    def log(self, record: dict[str, Any]) -> None:
        """Logs the numbers of an epoch's record, those of each validation grid as ``validation/GRID``."""
        if not self._open:
            self._open = [_TRACKERS[name](self._config, record["epoch"], self) for name in self._names]
        values = {key: value for key, value in record.items() if isinstance(value, (int, float)) and key != "epoch"}
        values |= {f"validation/{grid}": value for grid, value in record.get("validation_by_grid", {}).items()}
        for log in self._open:
            log(values, record["epoch"])


def _tensorboard(config: TrainConfig, epoch: int, closing: ExitStack) -> Log:
    from torch.utils.tensorboard import SummaryWriter

    assert config.folder is not None  # checked by TrainConfig
    writer = SummaryWriter(str(Path(config.folder) / "tensorboard"), purge_step=epoch)
    closing.callback(writer.close)

    def log(values: dict[str, float], epoch: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, global_step=epoch)
        writer.flush()

    return log


def _trackio(config: TrainConfig, epoch: int, closing: ExitStack) -> Log:
    import trackio

    run = trackio.init(
        project="sciops",
        name=None if config.folder is None else "-".join(Path(config.folder).absolute().parts[-2:]),
        resume="allow" if epoch > 1 else "never",
        config=plain(config.identity()),
    )
    closing.callback(run.finish)
    return lambda values, epoch: run.log(values, step=epoch)


_TRACKERS = {"tensorboard": _tensorboard, "trackio": _trackio}
