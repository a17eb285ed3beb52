"""The best and last parameters of a run, in memory and on disk, and its log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from sciops.files.json_files import append_jsonl, plain, write_atomically
from sciops.files.untrusted import in_one_line
from sciops.training.checkpoints import (
    load_checkpoint,
    load_model_tensors,
    load_optimizer_tensors,
    model_tensors,
    optimizer_tensors,
    save_checkpoint,
)
from sciops.training.config import TrainConfig
from sciops.training.optimization import Optimization
from sciops.training.parallel import gathered, is_sharded, like
from sciops.training.state.resumed_state import check_state
from sciops.training.state.run import Run
from sciops.training.warm_start import WarmStart

# What a run is resumed with has to be the same, by the entries of its state.
_DIFFERS = {
    "model": "was trained with the model {before}, this one is {now}",
    "data": "was trained on other fields: the training data changed since; pass another folder",
    "moves": "was augmented by other symmetries, {before}, now {now}: pass another folder",
    "validation": "was validated on other fields, with which its best epoch cannot be compared: pass the same "
    "validation fields, or another folder",
}


class Memory:
    """Keeps and restores the state of one `Run`; only the main process writes.

    `model` is what is trained: the run's own, or a copy of it spread over the processes. What is kept in memory is
    spread in the same way; files hold whole tensors, from which any number of processes, sharded or not, can resume.

    On disk, in the run's folder: ``last.safetensors`` (parameters, optimiser, best parameters, history: all that a
    resumed run needs, in one file, so that a killed process never leaves two files that disagree), ``best.safetensors``
    (the best parameters alone), ``log.jsonl`` (the history, a line an epoch). In memory: the parameters after the last
    good epoch and after the best one. Where parameters are averaged, all of these are the average; ``last.safetensors``
    also holds the raw parameters, which are trained further.
    """

    def __init__(
        self,
        run: Run,
        model: nn.Module,
        optimization: Optimization,
        config: TrainConfig,
        identity: Mapping[str, Any],
        writes: bool,
    ) -> None:
        self.run, self.model, self.config, self.identity, self.writes = run, model, config, identity, writes
        self.optimizer, self.scaler = optimization.optimizer, optimization.scaler
        self.names, self.average = optimization.names, optimization.average
        self.good: dict[str, Tensor] = {}
        self.best: dict[str, Tensor] = {}
        self.written = 0

    def start(self) -> None:
        """Restores the run from its folder where it is to be resumed; raises ValueError where it must not be."""
        folder = self.run.folder
        if folder is not None:
            last = folder / "last.safetensors"
            if last.exists():
                if not self.config.resume:
                    raise ValueError(f"{last} holds a run; pass resume=True to continue it, or another folder")
                self._restore(last)
            if self.writes:
                lines = "".join(json.dumps(plain(record), allow_nan=False) + "\n" for record in self.run.history)
                write_atomically(folder / "log.jsonl", lines.encode())
        with self.average.in_place():
            self.good = self._snapshot()

    def keep(self, record: dict[str, Any], *, last: bool) -> None:
        """Takes in the epoch that `record` describes: better than the best so far? time for a checkpoint?

        Where parameters are averaged, the model holds the average meanwhile.
        """
        run = self.run
        self.good = self._snapshot()
        value = record.get("validation")
        better = value is not None and value < (float("inf") if run.best is None else run.best)
        if better:
            run.best, run.best_epoch, self.best = value, run.epochs, self.good
        elif run.best is None:
            run.best_epoch = run.epochs
        if run.folder is None:
            return
        if self.writes:
            append_jsonl(run.folder / "log.jsonl", record)
        if better:
            state = {"epoch": run.best_epoch, "validation": plain(run.best), "model": self._model_config()}
            self._write("best.safetensors", self.best, state)
        if last or run.epochs % self.config.checkpoint_every == 0:
            self._write_last()

    def recover(self) -> None:
        """Puts the parameters and counts back to the end of the last good epoch."""
        load_model_tensors(self.model, self.good, "memory")
        self._hand_over()
        last: dict[str, Any] = self.run.history[-1] if self.run.history else {"step": 0, "seconds": 0.0}
        self.run.steps, self.run.seconds = last["step"], last["seconds"]

    def where(self) -> str:
        """Where the last good state is, in words."""
        text = f"the model holds the state after epoch {self.run.epochs}"
        if self.run.folder is not None and self.written:
            text += f", {self.run.folder / 'last.safetensors'} that after epoch {self.written}"
        return text

    def finish(self) -> None:
        """Gives the model the parameters that ``config.keep`` names."""
        if self.config.keep == "best" and self.best:
            load_model_tensors(self.model, self.best, "memory")
        elif self.average.decay is not None:
            load_model_tensors(self.model, self.good, "memory")
        self._hand_over()

    def _hand_over(self) -> None:
        """Gives the run's model the parameters of the copy that was trained, where there is one."""
        if self.model is not self.run.model:
            tensors = {name: gathered(t) for name, t in model_tensors(self.model).items()}
            load_model_tensors(self.run.model, tensors, "memory")

    def _snapshot(self) -> dict[str, Tensor]:
        return {name: t.detach().to("cpu", copy=True) for name, t in model_tensors(self.model).items()}

    def _write(self, name: str, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        whole = {}
        for key, tensor in tensors.items():
            if self.writes or is_sharded(tensor):
                value = gathered(tensor)
                if self.writes:
                    whole[key] = value
        if self.writes and self.run.folder is not None:
            save_checkpoint(self.run.folder / name, whole, state)

    def _write_last(self) -> None:
        run = self.run
        tensors = self.good | optimizer_tensors(self.optimizer, self.names) | self.average.raw_tensors()
        if self.best and run.best_epoch != run.epochs:
            tensors |= {name.replace("model/", "best/", 1): value for name, value in self.best.items()}
        state = {
            "config": self._identity(),
            **{name: self.identity[name] for name in ("data", "validation", "moves")},
            "model": self._model_config(),
            "epochs": run.epochs,
            "steps": run.steps,
            "seconds": run.seconds,
            "history": plain(run.history),
            "best": plain(run.best),
            "best_epoch": run.best_epoch,
            "scaler": self.scaler.state_dict(),
            **({"start": asdict(run.start)} if run.start else {}),
        }
        self._write("last.safetensors", tensors, state)
        self.written = run.epochs

    def _restore(self, path: Path) -> None:
        tensors, state = load_checkpoint(path)
        check_state(state, path)
        with in_one_line(path):
            self._put_back(path, tensors, state)

    def _put_back(self, path: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        mine = self._identity()
        for name in [*mine, *state["config"]]:
            if mine.get(name) != state["config"].get(name):
                advice = ""
                if name == "epochs":
                    why = self._fixed_epochs(state)
                    if why is None:
                        continue
                    advice = f" ({why}; {self._instead(state)})"
                raise ValueError(
                    f"{path} was trained with {name}={state['config'].get(name)!r}, this config has "
                    f"{mine.get(name)!r}: a run resumes with the config it began with{advice}"
                )
        now = {"model": self._model_config(), **self.identity}
        for name, message in _DIFFERS.items():
            # older files lack some; a model that does not describe itself is null
            if name in state and state[name] != now[name] and (name, state[name]) != ("model", None):
                raise ValueError(f"{path} {message.format(before=state[name], now=now[name])}")
        run = self.run
        load_model_tensors(self.model, tensors, path)
        self.average.restore(tensors)
        load_optimizer_tensors(self.optimizer, self.names, tensors)
        if state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])
        run.epochs, run.steps, run.seconds = state["epochs"], state["steps"], state["seconds"]
        run.history = [_number(record) for record in state["history"]]
        run.best, run.best_epoch = _number(state["best"]), state["best_epoch"]
        if state.get("start"):
            run.start = WarmStart(**state["start"] | {"left": tuple(state["start"]["left"])})
        self.written = run.epochs
        if run.best is not None:
            kept = {name.replace("best/", "model/", 1): t for name, t in tensors.items() if name.startswith("best/")}
            kept = kept or {name: t for name, t in tensors.items() if name.startswith("model/")}
            own = model_tensors(self.model)
            _check_names(kept, own, path)
            self.best = {name: like(tensor, own[name]) for name, tensor in kept.items()}

    def _fixed_epochs(self, state: Mapping[str, Any]) -> str | None:
        """Why the run cannot continue to another number of epochs; None where it can."""
        config = self.config
        if config.epochs < state["epochs"]:
            return f"it has done {state['epochs']} already"
        if config.steps is not None:
            return "epochs are what its steps are divided in"
        if config.schedule != "constant":
            return f"schedule={config.schedule!r} has other rates for another number of epochs; 'constant' has not"
        if any(isinstance(value, Mapping) for value in config.gradient_options.values()):
            return "gradient_options change at shares of all epochs"
        if config.grid_order == "sequential":
            return "grid_order='sequential' gives each grid a share of all epochs"
        return None

    def _instead(self, state: Mapping[str, Any]) -> str:
        """What to do in place of another number of epochs."""
        if self.config.epochs < state["config"]["epochs"]:
            return "to stop early and resume, set stop_after and leave epochs"
        return (
            f"to train further, start another run from this one: start_from={str(self.run.folder)!r} (--from on the "
            "command line) and another folder"
        )

    def _identity(self) -> dict[str, Any]:
        return plain(self.config.identity() | self.identity.get("about", {}))

    def _model_config(self) -> Any:
        try:
            return plain(getattr(self.run.model, "config", None))
        except TypeError:  # a wrapper around a module without a description
            return None


def _check_names(kept: Mapping[str, Tensor], own: Mapping[str, Tensor], path: Path) -> None:
    """Raises ValueError unless the tensors of the best epoch are those of the model."""
    for name in [*own, *kept]:
        if name not in own or name not in kept or kept[name].shape != own[name].shape:
            raise ValueError(f"{path} belongs to another model: {name!r} of its best epoch; pass another folder")


def _number(value: Any) -> Any:
    """ "nan", "inf" and "-inf" back to floats."""
    if isinstance(value, dict):
        return {key: _number(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_number(item) for item in value]
    return float(value) if isinstance(value, str) else value
