"""The numbers of every epoch in TensorBoard, trackio and Weights & Biases; ``log.jsonl`` always has them."""

from __future__ import annotations

import importlib.util
import os
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sciops.files.json_files import plain, write_atomically
from sciops.training.config import TrainConfig

_EXTRAS = {"tensorboard": "track", "trackio": "track", "wandb": "wandb"}
Log = Callable[[dict[str, float], int], None]  # of the numbers of an epoch, and its number


class Trackers(ExitStack):
    """The trackers that ``config.track`` names, opened with the first epoch that is logged; a context manager.

    tensorboard : event files in ``folder/tensorboard``. What an earlier call logged of epochs that are repeated is
        hidden
    trackio : a run of the project "sciops", named by the folder; a resumed training continues it
    wandb : the same, kept in ``folder/wandb``. Without an account, or with ``WANDB_MODE=offline``, it stays there;
        ``wandb sync`` sends it later

    writes : whether this process logs; the others do nothing

    Raises ImportError for a tracker that is not installed, with the command that installs it.
    """

    def __init__(self, config: TrainConfig, *, writes: bool) -> None:
        super().__init__()
        for name in config.track:
            if importlib.util.find_spec(name) is None:
                raise ImportError(f"track={name!r} needs {name}: pip install 'sciops[{_EXTRAS[name]}]'")
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
        name=_name(config),
        resume="allow" if epoch > 1 else "never",
        config=plain(config.identity()),
    )
    closing.callback(run.finish)
    return lambda values, epoch: run.log(values, step=epoch)


def _wandb(config: TrainConfig, epoch: int, closing: ExitStack) -> Log:
    import wandb

    if "WANDB_MODE" not in os.environ and not wandb.api.api_key:
        how: dict[str, Any] = {"mode": "offline"}  # it would ask for an account on the terminal
    else:
        how = {}
    if config.folder is not None:
        how |= {"dir": str(config.folder), "id": _wandb_number(Path(config.folder), epoch)}
    run = wandb.init(
        project="sciops",
        name=_name(config),
        resume="allow" if epoch > 1 else None,
        config=plain(config.identity()),
        **how,
    )
    closing.callback(run.finish)
    return lambda values, epoch: run.log(values, step=epoch)


def _wandb_number(folder: Path, epoch: int) -> str:
    """The number by which a resumed training finds its run, drawn at the first epoch and kept in the folder."""
    path = folder / "wandb_id.txt"
    if epoch == 1 or not path.is_file():
        write_atomically(path, secrets.token_hex(4).encode())
    return path.read_text().strip()


def _name(config: TrainConfig) -> str | None:
    """The last two names of the folder's path."""
    return None if config.folder is None else "-".join(Path(config.folder).absolute().parts[-2:])


_TRACKERS = {"tensorboard": _tensorboard, "trackio": _trackio, "wandb": _wandb}
