"""What `fit` returns, and what it calls meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from sciops.arrays.short import html_table
from sciops.training.warm_start import WarmStart


@dataclass
class Run:
    """What `fit` returns.

    model : in evaluation mode, physical units in and out, on the device it was trained on; parameters as of
        ``config.keep``
    history : one dict per epoch: epoch, step, loss (mean over the steps, each the mean over its fields), rate,
        gradient_norm (mean over the steps, before clipping), seconds, and where it was validated validation and
        validation_by_grid (mean relative L2 in physical units; of labels the error rate, of tokens nats a token); with
        ``diagnose_every`` diagnosis, a list of {"step", "cosine", "norm_ratio"} of the rule's gradient to
        backpropagation's, by group of parameters (`Diagnosis`)
    best_epoch, best : epoch and value of the least validation; without validation data the last epoch and None
    epochs, steps : done so far, over all calls that this run was resumed by
    seconds : of training, without validation and checkpoints, over all those calls
    parameters : number of trained parameters
    complete : False where `stop_after`, a callback or a loss that is not finite ended the run early
    stopped : why a callback or that loss ended it, or None
    start : what the first epoch began with, where the config named other weights (`warm_start`)
    folder : of log.jsonl, last.safetensors and best.safetensors, or None
    """

    model: nn.Module
    folder: Path | None
    history: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    best: float | None = None
    epochs: int = 0
    steps: int = 0
    seconds: float = 0.0
    parameters: int = 0
    complete: bool = False
    stopped: str | None = None
    start: WarmStart | None = None

    def __repr__(self) -> str:
        return "\n".join(["Run", *(f"  {name:10}  {text}" for name, text in self._rows())])

    def _repr_html_(self) -> str:
        return html_table("Run", self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        state = "complete" if self.complete else self.stopped or "not complete"
        rows = [("trained", f"{self.epochs} epochs, {self.steps} steps, {self.seconds:.3g} s, {state}")]
        if self.best is not None:
            rows.append(("validation", f"{self.best:.4g} at best, in epoch {self.best_epoch}"))
        if self.history:
            rows.append(("loss", f"{self.history[-1].get('loss', float('nan')):.4g} in the last epoch"))
        rows.append(("model", f"{type(self.model).__name__}, {self.parameters:,} parameters trained"))
        return rows if self.folder is None else [*rows, ("folder", str(self.folder))]

    def call(self, callbacks: Sequence[Callback], record: dict[str, Any]) -> None:
        """Calls them all; the run is to end where one returns True."""
        if any([callback(self, record) is True for callback in callbacks]):
            self.stopped = f"a callback ended the training after step {self.steps}"


Callback = Callable[[Run, dict[str, Any]], Any]
