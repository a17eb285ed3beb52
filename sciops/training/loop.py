"""The training loop: `fit`.

One process:    python -m studies.train …
Several:        torchrun --nproc-per-node 2 -m studies.train …
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from sciops._locks import occupied
from sciops._writable import writable_folder
from sciops.training.config import TrainConfig
from sciops.training.data.samples import Samples
from sciops.training.data.steps import set_rates
from sciops.training.data.stream import Stream
from sciops.training.gradients.diagnosis import Diagnosis
from sciops.training.parallel.processes import Processes
from sciops.training.setup import autocast, make_optimizer, own_random_state, seed_epoch
from sciops.training.state.averaging import Average
from sciops.training.state.finite import NonFiniteLoss, check_finite
from sciops.training.state.memory import Memory
from sciops.training.trackers import Trackers, check_trackers

Callback = Callable[["Run", dict[str, Any]], Any]


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
    seconds : of training alone, validation and checkpoints excluded, over all those calls
    parameters : how many numbers are trained
    complete : False where `stop_after`, a callback or a loss that is not finite ended the run early
    stopped : what a callback or that loss ended it by, or None
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


def fit(
    model: nn.Module,
    data: Any,
    config: TrainConfig | None = None,
    *,
    loss: Callable[[nn.Module, Any], Tensor] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Train `model` in place and return the `Run`.

    Parameters
    ----------
    model : any torch module
        `sciops.models.apply_model` decides whether its forward takes the grid.
    data : data sets, or with `loss` a function of the step
        An object with ``.train`` and ``.validation`` (`sciops.datasets.Splits`): datasets with ``len``,
        ``.batch(indices)`` → {"x": (batch, channel, *grid), "y": …} and ``.grid``. A list of datasets in ``.train``
        trains on several grids, one grid a batch; ``.validation`` may be None or a list too, and the mean over its
        datasets selects the best epoch. Where a dataset's ``.lazy`` is true its batches come from a disk: they are read
        while the step before runs (``config.loader_workers``), and ``.close()`` is called at the end. With objective
        "cross_entropy" y holds probabilities (batch, classes), one-hot labels as a rule (`sciops.datasets.images`);
        with objective "token_cross_entropy" x and y hold tokens (batch, n), y −100 where nothing is asked
        (`sciops.datasets.TokenWindows`, `TokenSequences`), and the model returns logits (batch, n, symbols).
    config : TrainConfig, optional
    loss : function (model, batch) → tensor of one number, optional
        A loss of your own. `data` is then a function, step (from 0) → batch, any object that the loss understands, on
        the device of the model. The training has ``config.steps`` steps, in ``config.epochs`` parts of equal length: a
        record and a checkpoint each. A loss without a graph is taken to have filled ``.grad`` itself.
    optimizer : torch.optim.Optimizer, optional
        In place of AdamW, of the trained parameters of `model`. Its groups have their own weight decay and peak rates,
        which ``config.schedule`` scales; "constant" leaves them as they are, also for a scheduler of torch.
    callbacks : functions (run, record)
        Called after every step with the record {"step", "loss", "rate", "gradient_norm"}, numbers or tensors of one,
        and after the validation of every epoch with the record that ``run.history`` gets. What a callback adds to the
        latter is kept with it, and a "validation" selects the best epoch. A callback leaves the model in the mode in
        which it was; its time is not counted. Where one returns True, the training ends.

    Returns
    -------
    Run

    Raises
    ------
    ValueError
        For data that does not fit or is not finite, for a target that is zero where the objective or the error of
        validation divides by its size, for symmetries (``augment``) that the problem does not have, for options that do
        not go together, for a folder that holds another run, and for a resumed run whose config, data or model differ,
        naming the first difference. A run with a constant rate may be resumed with more epochs; other schedules depend
        on their number.
    TypeError
        For data sets of another kind.
    OSError
        For a folder that cannot be written, or that another process is writing.
    NonFiniteLoss
        Where the loss or its gradient overflows (see ``on_nonfinite``).

    Notes
    -----
    Losses and metrics are in physical units: unless ``normalize=False``, normalisers are fitted on the training fields
    in float64 and the model is wrapped in `sciops.models.Normalized` (one that is wrapped already stays as it is);
    logits are left as they are. With a loss of your own the model is called as it is, in its own precision.

    Learning rate and batches are functions of the step and of (seed, epoch), so that a run that is stopped, or killed,
    and resumed ends bit-equal to one that was not, on the same machine, threads and number of processes; and a run on
    fields read from disk ends bit-equal to one on the same fields in memory. With a loss of your own that holds where
    the batches, and the random numbers that they and the loss draw, are functions of the step; an attribute ``about``
    of `data`, a dictionary of JSON's kinds, says which data they are, and a run is resumed on the same ones alone. The
    global random state is left as it was.

    With ``ema`` an exponential moving average of the parameters, ā ← d ā + (1 − d) p after every step, is what is
    validated, kept as best and last and returned, while the raw parameters p are trained further. The decay warms up,
    d = min(ema, (1 + step)/(10 + step)), so that short trainings forget their first parameters too. Buffers, such as
    normalisers and running statistics, are not averaged. ``last.safetensors`` holds both, ``model/…`` and ``raw/…``.

    Under torchrun every process takes its part of each batch and gradients are averaged, so that the result is that of
    one process to round-off; process 0 writes the files, from which any number of processes can resume. With
    ``strategy="fsdp"`` each holds a shard of the parameters (`sciops.training.parallel` says of which), `model` is
    left on the CPU meanwhile, and holds the whole result there at the end. ``accumulate`` splits each process's part
    into micro-batches whose gradients add up to the same step. Two things are not the same then: dropout and the noise
    of a `Stepper` draw other numbers, and batch norm sees smaller batches (process 0's running statistics are kept).
    """
    config = config or TrainConfig()
    check_trackers(config)
    processes = Processes(config)
    with ExitStack() as held:
        own = (data, config, processes) if loss is None else (data, loss, config, processes)
        source = held.enter_context((Samples if loss is None else Stream)(*own))
        if config.folder is not None:
            processes.first(lambda: writable_folder(config.folder))
        model = source.prepare(model)
        trained = processes.place(model)
        names = {p: name for name, p in trained.named_parameters() if p.requires_grad}
        if optimizer is None:
            optimizer = make_optimizer(list(names), config, processes.device)
        elif not names.keys() >= {p for group in optimizer.param_groups for p in group["params"]}:
            raise ValueError("the optimizer has parameters that are not trained ones of the model (fsdp trains a copy)")
        scaler = torch.amp.GradScaler(processes.device.type, enabled=config.precision == "fp16")
        run = Run(model, Path(config.folder) if config.folder else None, parameters=sum(p.numel() for p in names))
        average = Average(names, config.ema)
        memory = Memory(run, trained, optimizer, scaler, names, average, config, source.identity, processes.main)
        if run.folder is not None:
            processes.first(lambda: held.enter_context(occupied(run.folder)))
        memory.start()
        processes.agree(sizes_of_data_sets=source.sizes, finished_epochs=run.epochs)
        front = processes.prepare(source.front(trained))
        end = min(source.epochs, config.stop_after or source.epochs)
        bar = tqdm(total=end, initial=min(run.epochs, end), unit="epoch", disable=_hides_bar(config, processes))
        trackers = Trackers(config, writes=processes.main)
        with bar, trackers, own_random_state(processes.device):
            while run.epochs < end and run.stopped is None and not _out_of_time(run, config):
                seed_epoch(config, run.epochs, processes.rank, processes.device)
                try:
                    record = _train_epoch(front, source, optimizer, scaler, average, run, config, processes, callbacks)
                except NonFiniteLoss as error:
                    memory.recover()
                    run.stopped = f"{error}; {memory.where()}; lower learning_rate or set clip"
                    if config.on_nonfinite == "raise":
                        raise NonFiniteLoss(run.stopped) from None
                    break
                run.epochs += 1
                processes.share_buffers(trained)
                last = run.epochs == source.epochs or run.stopped is not None or _out_of_time(run, config)
                with average.in_place():
                    if last or run.epochs % config.validate_every == 0:
                        record |= source.validate(trained)
                    _call(callbacks, run, record)
                    run.history.append(record)
                    memory.keep(record, last=last or run.epochs == end)
                trackers.log(record)
                bar.set_postfix({k: f"{record[k]:.4g}" for k in ("loss", "validation") if k in record}, refresh=False)
                bar.update()
    run.complete = run.stopped is None and (run.epochs == source.epochs or _out_of_time(run, config))
    memory.finish()
    processes.wait()
    model.eval()
    return run


def _train_epoch(
    front: nn.Module,
    source: Samples | Stream,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    average: Average,
    run: Run,
    config: TrainConfig,
    processes: Processes,
    callbacks: Sequence[Callback],
) -> dict[str, Any]:
    """The steps of one epoch; returns its record, without validation."""
    diagnosis = Diagnosis(front, config)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]

    def gradients(rule: Callable[[nn.Module, Any], Tensor], step: Iterable[tuple[Any, int]]) -> Tensor:
        """The loss of a step, whose gradients by `rule` are then in `.grad`; its last micro-batch has number 0."""
        optimizer.zero_grad(set_to_none=True)
        losses = []
        for batch, number in step:
            with processes.backward(front, parameters, last=number == 0), autocast(config, processes.device):
                losses.append(rule(front, batch))
        return sum(losses[1:], losses[0])

    # a CPU is asked after every step, before the parameters change; a GPU once in a while, since asking stalls it
    ask_every = 1 if processes.device.type == "cpu" else 32
    before, started = run.seconds, time.perf_counter()
    front.train()
    count, steps = source.steps(front, run.epochs, run.steps, before / config.seconds if config.seconds else None)
    # arrays of the whole epoch: a tensor kept for every step leaves holes in the heap, which then grows
    losses, norms = (torch.zeros(count, dtype=processes.wide, device=processes.device) for _ in range(2))
    taken = 0
    with closing(steps):
        for step in steps:
            done = run.seconds / config.seconds if config.seconds else run.steps / source.total
            rate = set_rates(optimizer, done, config)
            if diagnosis.is_due(run.steps):
                step = list(step)
                truth = source.rule(done, scaler, "backprop")
                diagnosis.remember_truth(lambda step=step, truth=truth: gradients(truth, step))
            loss = gradients(source.rule(done, scaler), step)
            if diagnosis.is_due(run.steps):
                diagnosis.compare(run.steps + 1)
            scaler.unscale_(optimizer)
            norm = processes.gradient_norm(parameters)
            run.steps += 1
            losses[taken] = loss / scaler.get_scale() if scaler.is_enabled() else loss
            norms[taken] = norm
            taken += 1
            if run.steps % ask_every == 0:
                latest = slice(max(0, taken - ask_every), taken)
                check_finite(losses[latest], norms[latest], run, rate, config, processes)
            if config.clip is not None:
                processes.clip(parameters, config.clip, norm)
            scaler.step(optimizer)
            scaler.update()
            average.update(run.steps)
            run.seconds = before + time.perf_counter() - started
            if callbacks:
                record = {"step": run.steps, "loss": losses[taken - 1], "rate": rate, "gradient_norm": norm}
                _call(callbacks, run, record)
                started = time.perf_counter() - (run.seconds - before)  # the clock stood still meanwhile
            if run.stopped is not None or _out_of_time(run, config):
                break
    losses, norms = losses[:taken], norms[:taken]
    check_finite(losses, norms, run, rate, config, processes)
    mean_loss = (processes.sum(losses.mean()) / processes.count).item()
    if not math.isfinite(mean_loss):
        raise NonFiniteLoss(f"loss is {mean_loss} in epoch {run.epochs + 1}, learning rate {rate:.3g}")
    mean_norm = norms.mean().item()
    run.seconds = before + time.perf_counter() - started
    return {
        "epoch": run.epochs + 1,
        "step": run.steps,
        "loss": mean_loss,
        "rate": rate,
        "gradient_norm": mean_norm,
        "seconds": run.seconds,
        **({"diagnosis": diagnosis.found} if diagnosis.found else {}),
    }


def _call(callbacks: Sequence[Callback], run: Run, record: dict[str, Any]) -> None:
    """Calls them all; the run is to end where one returns True."""
    if any([callback(run, record) is True for callback in callbacks]):
        run.stopped = f"a callback ended the training after step {run.steps}"


def _out_of_time(run: Run, config: TrainConfig) -> bool:
    return config.seconds is not None and run.seconds >= config.seconds


def _hides_bar(config: TrainConfig, processes: Processes) -> bool | None:
    return None if config.progress and processes.main else True  # None: where there is no terminal
