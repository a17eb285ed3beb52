"""Training on recordings: `sciops.training.fit` by steps, with batches, masks and dropout that the step decides."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sciops.files.json_files import plain
from sciops.models.sequences.ctc import beam_decode, greedy_decode
from sciops.models.sequences.speech import REDUCTION, SpeechRecognizer
from sciops.training.config import TrainConfig
from sciops.training.loop import fit
from sciops.training.speech.ctc import check_targets, ctc_loss
from sciops.training.speech.frames import LengthBatches, padded
from sciops.training.speech.old_checkpoint import convert_old_checkpoint
from sciops.training.speech.pretraining import BestRQ

Loss = Callable[[Tensor, Tensor, Sequence[int], torch.Generator], tuple[Tensor, dict[str, float]]]


@dataclass(frozen=True)
class SpeechTraining:
    """How a model of speech is trained."""

    steps: int = 1000
    """number of steps"""
    batch: int = 16
    """recordings a step"""
    rate: float = 1e-3
    """peak rate of AdamW"""
    encoder_share: float = 1.0
    """rate of parameters named encoder.…, times the peak rate; fine-tuning of large models was published with 1/6"""
    schedule: Literal["onecycle", "cosine", "constant"] = "onecycle"
    """of the rate"""
    warmup: float = 0.15
    """share of the steps in which the rate rises"""
    weight_decay: float = 0.01
    """of matrices"""
    betas: tuple[float, float] = (0.9, 0.98)
    """of AdamW"""
    clip: float = 10.0
    """largest norm of the gradient"""
    seed: int = 0
    """of the order of the recordings, masks and dropout"""
    checkpoint: Path | None = None
    """folder of the run (`sciops.training.fit`), from which a training that was stopped resumes; a file from before
    there were such folders is converted"""
    checkpoint_every: int = 500
    """largest number of steps between two checkpoints"""
    device: str = "cpu"
    """device of the model and the batches"""
    progress: bool = False
    """show a bar"""


def fit_steps(
    model: nn.Module,
    frames: Sequence[Tensor],
    loss: Loss,
    config: SpeechTraining,
    *,
    about: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Trains `model` in place; returns {"history": numbers of every step, "seconds"}.

    frames : log-mel frames of the recordings, see `MelFrames`
    loss : (mel, lengths, indices, generator) → loss, numbers to keep
    about : what else makes this training, in JSON's kinds; a checkpoint is of the same

    Order, masks and dropout are functions of the seed and the step, so a training that resumes from its checkpoint
    gives what one that was never stopped gives; on a GPU, where sums have no fixed order, up to round-off. Raises
    `NonFiniteLoss` for a loss that is not finite, ValueError for a checkpoint of another configuration, of another
    model, or of recordings of other lengths, OSError for one that cannot be written.
    """
    batches = LengthBatches([len(one) for one in frames], config.batch, seed=config.seed)
    checksum = zlib.crc32(batches.lengths.astype("<i8").tobytes())
    training = TrainConfig(
        steps=config.steps,
        epochs=min(config.steps, math.ceil(config.steps / config.checkpoint_every)),
        learning_rate=config.rate,
        schedule=config.schedule,
        warmup=config.warmup,
        clip=config.clip,
        seed=config.seed,
        device=config.device,
        folder=config.checkpoint,
        resume=True,
        progress=config.progress,
    )
    numbers: dict[str, float] = {}
    rows: list[dict[str, float]] = []

    def batch(step: int) -> tuple[Any, ...]:
        torch.manual_seed(_mixed(config.seed, step))  # of dropout
        generator = torch.Generator().manual_seed(_mixed(config.seed, step) + 1)
        indices = batches(step).tolist()
        mel, lengths = (part.to(config.device) for part in padded([frames[i] for i in indices]))
        return mel, lengths, indices, generator

    def own_loss(_: nn.Module, given: tuple[Any, ...]) -> Tensor:
        value, said = loss(*given)
        numbers.update(said)
        return value

    def keep(_: Any, record: dict[str, Any]) -> None:
        if "epoch" in record:
            record["steps"], rows[:] = list(rows), []
        else:
            rows.append({"loss": float(record["loss"]), **numbers})

    batch.about = plain({**_identity(config), "recordings": checksum, **(about or {})})
    optimizer = _optimizer(model.to(config.device), config)
    if config.checkpoint is not None:
        convert_old_checkpoint(Path(config.checkpoint), model, optimizer, training, batch.about)
    run = fit(model, batch, training, loss=own_loss, optimizer=optimizer, callbacks=[keep])
    return {"history": [row for record in run.history for row in record["steps"]], "seconds": run.seconds}


def pretrain(model: BestRQ, frames: Sequence[Tensor], config: SpeechTraining) -> dict[str, Any]:
    """`fit_steps` with the loss of BEST-RQ; the history has "loss" and "accuracy" on masked tokens of every step.

    Recordings of less than four frames have no target: leave them out.
    """

    def loss(mel: Tensor, lengths: Tensor, indices: Sequence[int], generator: torch.Generator):
        out = model(mel, lengths, generator)
        return out.loss, {"accuracy": float((out.logits.argmax(-1) == out.targets).float().mean())}

    about = {"loss": "best_rq", "model": getattr(model.encoder, "config", None), "codes": model.quantizer.seed}
    return fit_steps(model, frames, loss, config, about={**about, **model.masking, "deviation": model.deviation})


def fine_tune(
    model: SpeechRecognizer, frames: Sequence[Tensor], targets: Sequence[Sequence[int]], config: SpeechTraining
) -> dict[str, Any]:
    """`fit_steps` with the mean over recordings of `ctc_loss`; targets[i] are the symbols of frames[i], from 1 on.

    Raises ValueError, before the first step, for targets that `ctc_loss` refuses; `has_path` tells which are too long.
    """
    if len(targets) != len(frames):
        raise ValueError(f"{len(targets)} targets for {len(frames)} recordings")
    check_targets(targets, [-(-len(one) // REDUCTION) for one in frames], model.head[-1].out_features)

    def loss(mel: Tensor, lengths: Tensor, indices: Sequence[int], generator: torch.Generator):
        logits, tokens = model.scores(mel, lengths)
        return ctc_loss(logits, tokens, [targets[i] for i in indices]).mean(), {}

    checksum = zlib.crc32(json.dumps(plain(targets)).encode())
    about = {"loss": "ctc", "model": getattr(model, "config", None), "targets": checksum}
    return fit_steps(model, frames, loss, config, about=about)


@torch.no_grad()
def masked_accuracy(model: BestRQ, frames: Sequence[Tensor], *, batch: int = 32, seed: int = 0) -> dict[str, float]:
    """Of all masked tokens: "accuracy", "loss", and what can be had without listening, the share "commonest" of the
    commonest code and 1/codes as "uniform", and of the codes "used". The masks depend on the seed and on `batch`.

    Raises ValueError for no recordings.
    """
    if not len(frames):
        raise ValueError("no recordings: expected at least one")
    model.eval()
    generator, right, loss, codes = torch.Generator().manual_seed(seed), 0, 0.0, []
    for indices in _in_order(len(frames), batch):
        mel, lengths = (part.to(model.head.weight.device) for part in padded([frames[i] for i in indices]))
        out = model(mel, lengths, generator)
        right += int((out.logits.argmax(-1) == out.targets).sum())
        loss += float(out.loss) * len(out.targets)
        codes.append(out.targets)
    all_codes = torch.cat(codes)
    commonest = int(all_codes.bincount().max())
    total = len(all_codes)
    return {
        "accuracy": right / total,
        "loss": loss / total,
        "commonest": commonest / total,
        "uniform": 1 / model.head.out_features,
        "used": int(all_codes.unique().numel()),
    }


@torch.no_grad()
def decoded(
    scores: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    frames: Sequence[Tensor],
    *,
    beam: int | None = None,
    batch: int = 32,
    device: str = "cpu",
) -> list[list[int]]:
    """Symbols of every recording, by the best path or, with `beam`, by beams of prefixes; scores as `model.scores`."""
    found: list[list[int]] = []
    for indices in _in_order(len(frames), batch):
        mel, lengths = (part.to(device) for part in padded([frames[i] for i in indices]))
        logits, tokens = scores(mel, lengths)
        if beam is None:
            found += greedy_decode(logits, tokens)
        else:
            found += [best[0][0] for best in beam_decode(logits, tokens, beam=beam)]
    return found


def _in_order(count: int, batch: int) -> list[range]:
    return [range(i, min(i + batch, count)) for i in range(0, count, batch)]


def _mixed(seed: int, step: int) -> int:
    return (seed * 1_000_003 + step) * 2


def _optimizer(model: nn.Module, config: SpeechTraining) -> torch.optim.Optimizer:
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups.setdefault((name.startswith("encoder."), parameter.ndim > 1), []).append(parameter)
    return torch.optim.AdamW(
        [
            {
                "params": parameters,
                "lr": config.rate * (config.encoder_share if of_encoder else 1.0),
                "weight_decay": config.weight_decay if matrix else 0.0,
            }
            for (of_encoder, matrix), parameters in groups.items()
        ],
        betas=config.betas,
    )


def _identity(config: SpeechTraining) -> dict[str, Any]:
    free = ("checkpoint", "checkpoint_every", "device", "progress")
    return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(config).items() if k not in free}
