"""The numbers of every epoch, which ``log.jsonl`` has anyway, in TensorBoard and trackio, by accelerate's trackers."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from sciops._json import plain
from sciops.training.config import TrainConfig


def check_trackers(config: TrainConfig) -> None:
    """Raises ImportError for a tracker of the config that is not installed, with the command that installs it."""
    for name in config.track:
        if importlib.util.find_spec(name) is None:
            raise ImportError(f"track={name!r} needs {name}: pip install 'sciops[track]'")


class Trackers:
    """The trackers that ``config.track`` names, begun with the first epoch that is logged; a context manager.

    tensorboard : event files in ``folder/tensorboard``. What an earlier call logged of epochs that are done again is
        hidden
    trackio : a run of the project "sciops", named by the folder; a resumed training goes on with it

    writes : whether this process logs; the others do nothing
    """

    def __init__(self, config: TrainConfig, *, writes: bool) -> None:
        self._config, self._names = config, tuple(dict.fromkeys(config.track)) if writes else ()
        self._open: list[Any] = []

    def log(self, record: dict[str, Any]) -> None:
        """Logs the numbers of an epoch's record, those of each validation grid as ``validation/GRID``."""
        if not self._open:
            self._open = [self._begun(name, record["epoch"]) for name in self._names]
        values = {key: value for key, value in record.items() if isinstance(value, (int, float)) and key != "epoch"}
        values |= {f"validation/{grid}": value for grid, value in record.get("validation_by_grid", {}).items()}
        for tracker in self._open:
            tracker.log(values, step=record["epoch"])

    def _begun(self, name: str, epoch: int) -> Any:
        from accelerate.tracking import LOGGER_TYPE_TO_CLASS

        folder = None if self._config.folder is None else Path(self._config.folder)
        if name == "tensorboard":
            tracker = LOGGER_TYPE_TO_CLASS[name](name, folder, purge_step=epoch)
        else:
            run = None if folder is None else "-".join(folder.absolute().parts[-2:])
            again = "allow" if epoch > 1 else "never"
            described = plain(self._config.identity())
            tracker = LOGGER_TYPE_TO_CLASS[name]("sciops", name=run, resume=again, config=described)
        tracker.start()
        return tracker

    def __enter__(self) -> Trackers:
        return self

    def __exit__(self, *_: Any) -> None:
        for tracker in self._open:
            tracker.finish()
        self._open = []
