"""The training loop: `fit`.

One process:    python -m studies.train …
Several:        torchrun --nproc-per-node 2 -m studies.train …
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sciops.files.locks import occupied
from sciops.files.writable import writable_folder
from sciops.training.config import TrainConfig
from sciops.training.data import Loss, Samples, Source, Stream
from sciops.training.gradients import AFTER_STEP
from sciops.training.gradients.diagnosis import Diagnosis
from sciops.training.muon import matrix_stacks
from sciops.training.optimization import Optimization
from sciops.training.parallel import Processes
from sciops.training.progress import Progress
from sciops.training.setup import own_random_state, seed_epoch
from sciops.training.state import Callback, Memory, NonFiniteLoss, Run, StepNumbers
from sciops.training.trackers import Trackers
from sciops.training.warm_start import WarmStart, warm_start
from sciops.uncertainty import keep_points_used


def fit(
    model: nn.Module,
    data: Any,
    config: TrainConfig | None = None,
    *,
    loss: Loss | None = None,
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
        datasets selects the best epoch. A dataset whose ``.lazy`` is true is read from a disk: the next batches are
        read during a step (``config.loader_workers``), and ``.close()`` is called at the end. With objective
        "cross_entropy" y holds probabilities (batch, classes), usually one-hot labels (`sciops.datasets.images`);
        with objective "token_cross_entropy" x and y hold tokens (batch, n), with y = −100 where the loss ignores them
        (`sciops.datasets.TokenWindows`, `TokenSequences`), and the model returns logits (batch, n, symbols). With an
        objective of `PRECISION_RECALL`, ``config.objective_options`` say whether the data are tokens or fields, of
        which the model returns a distribution.
    config : TrainConfig, optional
    loss : function (model, batch) → tensor of one number, optional
        A loss of your own. `data` is then a function, step (from 0) → batch, of any object that the loss takes, on the
        device of the model. The training has ``config.steps`` steps in ``config.epochs`` parts of equal length, each
        with a record and a checkpoint. A loss that does not require a gradient has to have filled ``.grad`` itself.
    optimizer : torch.optim.Optimizer, optional
        Replaces AdamW; its parameters are trained ones of `model`. Its groups have their own weight decay and peak
        rates, which ``config.schedule`` scales; "constant" does not change them, so that a scheduler of torch can.
    callbacks : functions (run, record)
        Called after every step with the record {"step", "loss", "rate", "gradient_norm"}, numbers or tensors of one,
        and after the validation of every epoch with the record that ``run.history`` gets. What a callback adds to the
        latter is kept with it, and a "validation" selects the best epoch. A callback must leave the model in the
        mode in which it found it; its time is not counted. The training ends where one returns True.

    Returns
    -------
    Run

    Raises
    ------
    FileNotFoundError
        For weights to start from (``start_from``) that are not there.
    ValueError
        For data that does not fit or is not finite, for a target that is zero where the objective or the error of
        validation divides by its size, for symmetries (``augment``) that the problem does not have, for options that do
        not go together, for weights to start from of another architecture, for a folder that holds another run, and for
        a resumed run whose config, data or model differ, naming the first difference. A run with a constant rate may be
        resumed with more epochs; other schedules depend on their number: start another run from it.
    TypeError
        For data sets of another kind.
    OSError
        For a folder that cannot be written, or that another process is writing.
    NonFiniteLoss
        Where the loss or its gradient overflows (see ``on_nonfinite``).

    Notes
    -----
    Losses and metrics are in physical units: unless ``normalize=False``, normalisers are fitted on the training fields
    in float64 and the model is wrapped in `sciops.models.Normalized`, if it is not yet; logits are not normalised. With
    a loss of your own the model is called without a wrapper, in its own precision.

    A model of a distribution, such as "quantized:fno", has its own losses (`sciops.uncertainty.training_losses`): the
    objective does nothing to it, and `sciops.uncertainty.validation_errors` chooses its best epoch.

    Learning rate and batches are functions of the step and of (seed, epoch). A run that is stopped, or killed, and
    resumed therefore ends bit-equal to an uninterrupted one on the same machine, threads and number of processes, and a
    run on fields read from disk ends bit-equal to one on the same fields in memory. With a loss of your own that holds
    where the batches, and the random numbers that they and the loss draw, are functions of the step. The attribute
    ``about`` of `data`, a dictionary that JSON can hold, then describes the data; a run resumes on the same data only.
    The global random state is restored at the end.

    With ``start_from`` the model begins with the weights of another run, as far as they fit (`warm_start`), which
    ``run.start`` and the checkpoint record with their digest; a resumed run does not read them again.

    With ``ema`` an exponential moving average of the parameters, ā ← d ā + (1 − d) p after every step, is
    validated, kept as best and last and returned, while the raw parameters p are trained further. The decay warms up,
    d = min(ema, (1 + step)/(10 + step)), so that short trainings forget their first parameters too. Buffers, such as
    normalisers and running statistics, are not averaged. ``last.safetensors`` holds both, ``model/…`` and ``raw/…``.

    Under torchrun every process takes its part of each batch and gradients are averaged, so that the result is that of
    one process to round-off; process 0 writes the files, from which any number of processes can resume. With
    ``strategy="fsdp"`` each process holds a shard of the parameters; `model` stays on the CPU, and holds the whole
    result at the end. ``accumulate`` splits each process's part into micro-batches whose gradients add up to the same
    step. Two things differ: dropout and the noise of a `Stepper` draw other numbers, and batch norm sees smaller
    batches (process 0's running statistics are kept).
    """
    config = config or TrainConfig()
    processes = Processes(config)
    trackers = Trackers(config, writes=processes.main)
    with ExitStack() as held:
        # 1. what is trained on what
        batches: Source = Samples(data, config, processes) if loss is None else Stream(data, loss, config, processes)
        source = held.enter_context(batches)
        if config.folder is not None:
            processes.first(partial(writable_folder, config.folder))
        model = source.prepare(model)
        start = _started(model, config)
        trained = processes.place(model)
        names = {p: name for name, p in trained.named_parameters() if p.requires_grad}
        optimization = Optimization(names, optimizer, config, processes, matrix_stacks(trained))
        if config.gradients in AFTER_STEP:
            held.callback(AFTER_STEP[config.gradients](trained, optimization.optimizer).remove)

        # 2. the run, new or resumed from its folder
        run = Run(
            model, Path(config.folder) if config.folder else None, parameters=sum(p.numel() for p in names), start=start
        )
        memory = Memory(run, trained, optimization, config, source.identity, processes.main)
        if run.folder is not None:
            processes.first(partial(held.enter_context, occupied(run.folder)))
        memory.start()
        held.callback(keep_points_used(trained, optimization.optimizer).remove)
        processes.agree(sizes_of_data_sets=source.sizes, finished_epochs=run.epochs)

        # 3. its epochs
        front = processes.prepare(source.front(trained))
        end = min(source.epochs, config.stop_after or source.epochs)
        progress = held.enter_context(Progress(run.epochs, end, shown=config.progress and processes.main))
        if start is not None:
            progress.say(f"started from {start}")
        held.enter_context(trackers)
        held.enter_context(own_random_state(processes.device))
        while run.epochs < end and run.stopped is None and not _out_of_time(run, config):
            seed_epoch(config, run.epochs, processes.rank, processes.device)
            try:
                record = _train_epoch(front, source, optimization, run, config, processes, callbacks)
            except NonFiniteLoss as error:
                memory.recover()
                run.stopped = f"{error}; {memory.where()}; lower learning_rate or set clip"
                if config.on_nonfinite == "raise":
                    raise NonFiniteLoss(run.stopped) from None
                break
            run.epochs += 1
            processes.share_buffers(trained)
            last = run.epochs == source.epochs or run.stopped is not None or _out_of_time(run, config)
            with optimization.average.in_place():
                if last or run.epochs % config.validate_every == 0:
                    record |= source.validate(trained)
                run.call(callbacks, record)
                run.history.append(record)
                memory.keep(record, last=last or run.epochs == end)
            trackers.log(record)
            progress.show(record, last=last or run.epochs == end)
    run.complete = run.stopped is None and (run.epochs == source.epochs or _out_of_time(run, config))
    memory.finish()
    processes.wait()
    model.eval()
    return run


def _train_epoch(
    front: nn.Module,
    source: Source,
    optimization: Optimization,
    run: Run,
    config: TrainConfig,
    processes: Processes,
    callbacks: Sequence[Callback],
) -> dict[str, Any]:
    """The steps of one epoch; returns its record, without validation."""
    diagnosis = Diagnosis(front, config)
    gradients = partial(optimization.gradients, front)
    started = time.perf_counter() - run.seconds
    front.train()
    count, steps = source.steps(front, run.epochs, run.steps, run.seconds / config.seconds if config.seconds else None)
    numbers = StepNumbers(count, run, config, processes)
    with closing(steps):
        for step in steps:
            done = run.seconds / config.seconds if config.seconds else run.steps / source.total
            rate = optimization.set_rates(done)
            diagnosed = diagnosis.is_due(run.steps)
            if diagnosed:
                step = list(step)
                diagnosis.remember_truth(partial(gradients, source.rule(done, optimization.scaler, "backprop"), step))
            loss = gradients(source.rule(done, optimization.scaler), step)
            if diagnosed:
                diagnosis.compare(run.steps + 1)
            norm = optimization.gradient_norm()
            run.steps += 1
            loss = numbers.add(loss, norm, rate)
            optimization.update(norm, run.steps)
            run.seconds = time.perf_counter() - started
            if callbacks:
                run.call(callbacks, {"step": run.steps, "loss": loss, "rate": rate, "gradient_norm": norm})
                started = time.perf_counter() - run.seconds  # the clock stood still meanwhile
            if run.stopped is not None or _out_of_time(run, config):
                break
    mean_loss, mean_norm = numbers.means()
    run.seconds = time.perf_counter() - started
    return {
        "epoch": run.epochs + 1,
        "step": run.steps,
        "loss": mean_loss,
        "rate": rate,
        "gradient_norm": mean_norm,
        "seconds": run.seconds,
        **({"diagnosis": diagnosis.found} if diagnosis.found else {}),
    }


def _started(model: nn.Module, config: TrainConfig) -> WarmStart | None:
    """Gives the model the weights that the config names, unless the run in its folder is to be resumed."""
    resumed = config.folder is not None and (Path(config.folder) / "last.safetensors").exists()
    if config.start_from is None or resumed:
        return None
    start = warm_start(model, config.start_from, statistics=config.start_statistics)
    if start.left:
        warnings.warn(f"start_from: {start}", stacklevel=3)
    return start


def _out_of_time(run: Run, config: TrainConfig) -> bool:
    return config.seconds is not None and run.seconds >= config.seconds
