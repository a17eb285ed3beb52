"""Training of token models on symbol tasks: one record a training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm.auto import tqdm

from sciops.datasets.text.sequence_tasks import SequenceTask
from sciops.models.sequences.stack import SequenceStack
from studies.kit.stepping import shuffled, train_by_step


class TokenModel(nn.Module):
    """Embedding, `SequenceStack`, linear head: tokens (batch, n) → logits (batch, n, symbols).

    Tokens of several symbols, (batch, n, parts), have the sum of their embeddings.

    answers : asked for at once; 0 gives the shape above, more (batch, n, answers, symbols)
    options : of the stack, as mixer="recurrence", mixer_options={"pattern": "squares"}
    """

    def __init__(
        self, symbols: int, *, answers: int = 0, width: int = 64, depth: int = 1, causal: bool = True, **options: Any
    ) -> None:
        super().__init__()
        self.answers = answers
        self.embedding = nn.Embedding(symbols, width)
        nn.init.normal_(self.embedding.weight, std=0.5)
        self.stack = SequenceStack(width, depth, causal=causal, **options)
        self.head = nn.Linear(width, max(1, answers) * symbols)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        logits = self.head(self.stack(x if tokens.ndim == 2 else x.sum(2)))
        return logits.unflatten(-1, (self.answers, -1)) if self.answers else logits


def train_tokens(
    model: nn.Module | Mapping[str, Any],
    training: Callable[..., SequenceTask] | SequenceTask,
    test: SequenceTask,
    *,
    steps: int,
    batch: int = 64,
    rate: float = 3e-3,
    seed: int = 0,
    weight_decay: float = 0.01,
    clip: float = 1.0,
    checks: int = 8,
    checked: int = 256,
    device: str = "cpu",
    progress: str | None = None,
) -> dict[str, Any]:
    """Trains by AdamW, one cycle of the rate, cross-entropy at the asked positions; returns what `test` then says.

    model : tokens → logits (*targets, symbols), or options of `TokenModel`, initialised from `seed`
    training : maker(samples, seed=…) → task, of which every step sees fresh samples; or a task, shuffled by epoch
    clip : largest norm of a gradient
    checks : how often, evenly over the training, the first `checked` test sequences are asked
    progress : name of a progress bar, None for none

    returns : plain numbers. accuracy (share of right answers), whole (share of sequences without a wrong one), groups
        {name: {"value", "accuracy", "count" (lists)}}, loss (mean of the last 5 % of steps), curve [{"step", "loss",
        "accuracy"}], parameters, seconds (of training), steps, batch, rate, seed

    Raises `NonFiniteLoss` naming the step at which a loss is not finite.
    """
    torch.manual_seed(seed)
    answers = test.targets.shape[2] if test.targets.ndim == 3 else 0
    net = model if isinstance(model, nn.Module) else TokenModel(test.symbols, answers=answers, **model)
    net = net.to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=weight_decay)
    due = {round(steps * (i + 1) / checks) for i in range(checks)}
    small = _part(test, slice(0, checked))
    losses = torch.full((steps,), torch.nan, device=device)  # one array: a list would leave holes in the heap
    curve: list[dict[str, float]] = []
    bar = tqdm(_batches(training, steps, batch, seed), total=steps, desc=progress, disable=progress is None or None)
    drawn = iter(bar)

    def batch_of(_: int) -> tuple[Tensor, Tensor]:
        task = next(drawn)
        return torch.from_numpy(task.tokens).to(device), torch.from_numpy(task.targets).to(device)

    def loss_of(net: nn.Module, given: tuple[Tensor, Tensor]) -> Tensor:
        tokens, targets = given
        asked = targets != -100
        return F.cross_entropy(net(tokens)[asked], targets[asked])

    def check(_: Any, record: Mapping[str, Any]) -> None:
        step = record["step"]
        losses[step - 1] = record["loss"]
        if step in due:
            recent = float(losses[max(0, step - max(1, steps // checks)) : step].mean())
            accuracy = evaluate(net, small, batch=batch)["accuracy"]
            curve.append({"step": step, "loss": recent, "accuracy": accuracy})
            bar.set_postfix(loss=f"{recent:.3f}", accuracy=f"{accuracy:.3f}")

    run = train_by_step(net, batch_of, loss_of, optimizer, steps=steps, after=check, device=device, clip=clip)
    bar.close()
    return {
        **evaluate(net, test, batch=batch),
        "loss": float(losses[-max(1, steps // 20) :].mean()),
        "curve": curve,
        "parameters": sum(p.numel() for p in net.parameters()),
        "seconds": run.seconds,
        "steps": steps,
        "batch": batch,
        "rate": rate,
        "seed": seed,
    }


@torch.no_grad()
def evaluate(model: nn.Module, task: SequenceTask, *, batch: int = 64) -> dict[str, Any]:
    """{"accuracy", "whole", "groups"} of a model on a task, as `train_tokens` returns them."""
    device = next(model.parameters()).device
    training, model = model.training, model.eval()
    said = [
        model(torch.from_numpy(task.tokens[i : i + batch]).to(device)).argmax(-1).cpu().numpy()
        for i in range(0, len(task), batch)
    ]
    model.train(training)
    asked = task.asked
    right = np.concatenate(said) == task.targets
    groups = {}
    for name, group in task.groups.items():
        values, which, count = np.unique(group[asked], return_inverse=True, return_counts=True)
        shares = np.bincount(which, weights=right[asked], minlength=len(values)) / count
        groups[name] = {"value": values.tolist(), "accuracy": shares.tolist(), "count": count.tolist()}
    return {
        "accuracy": float(right[asked].mean()),
        "whole": float((right | ~asked).reshape(len(right), -1).all(1).mean()),
        "groups": groups,
    }


def _batches(
    training: Callable[..., SequenceTask] | SequenceTask, steps: int, batch: int, seed: int
) -> Iterator[SequenceTask]:
    """`steps` batches: fresh ones, no two trainings' and no step's alike, or epochs of a fixed set in a drawn order."""
    rng = np.random.default_rng([seed, 1])
    if callable(training):
        at_once = 32  # makers have a cost a call
        for start in range(0, steps, at_once):
            drawn = training(batch * min(at_once, steps - start), seed=int(rng.integers(2**62)))
            yield from (_part(drawn, slice(i, i + batch)) for i in range(0, len(drawn), batch))
        return
    rows = shuffled(len(training), min(batch, len(training)), rng.permutation)
    yield from (_part(training, next(rows)) for _ in range(steps))


def _part(task: SequenceTask, rows: Any) -> SequenceTask:
    return SequenceTask(task.tokens[rows], task.targets[rows], task.symbols)
