"""Training by steps on recordings: AdamW, one cycle of the rate, checkpoints, and nothing that depends on a restart."""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from sciops._json import plain
from sciops._untrusted import in_one_line
from sciops._writable import writable_file
from sciops.models.ctc import beam_decode, greedy_decode
from sciops.models.speech import REDUCTION, SpeechRecognizer
from sciops.training.checkpoints import load_checkpoint, save_checkpoint
from sciops.training.schedule import rate_factor
from sciops.training.speech.ctc import check_targets, ctc_loss
from sciops.training.speech.frames import LengthBatches, padded
from sciops.training.speech.pretraining import BestRQ

Loss = Callable[[Tensor, Tensor, Sequence[int], torch.Generator], tuple[Tensor, dict[str, float]]]


@dataclass(frozen=True)
class SpeechTraining:
    """How a model of speech is trained."""

    steps: int = 1000
    """how many"""
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
    """file from which a training that was stopped goes on, written every `checkpoint_every` steps"""
    checkpoint_every: int = 500
    """steps"""
    device: str = "cpu"
    """where"""
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

    Order, masks and dropout are functions of the seed and the step, so a training that goes on from its checkpoint
    gives what one that was never stopped gives; on a GPU, where sums have no fixed order, up to round-off. Raises
    RuntimeError for a loss that is not finite, ValueError for a checkpoint of another configuration, of another model,
    or of recordings of other lengths, OSError for one that cannot be written.
    """
    if config.checkpoint is not None:
        writable_file(config.checkpoint)
    batches = LengthBatches([len(one) for one in frames], config.batch, seed=config.seed)
    checksum = zlib.crc32(batches.lengths.astype("<i8").tobytes())
    identity = plain({**_identity(config), "recordings": checksum, **(about or {})})
    model.to(config.device).train()
    optimizer = _optimizer(model, config)
    step, history, before = _restored(model, optimizer, config, identity)
    began = time.perf_counter() - before
    devices = [config.device] if config.device.startswith("cuda") else []
    with torch.random.fork_rng(devices), tqdm(total=config.steps, initial=step, disable=not config.progress) as bar:
        while step < config.steps:
            torch.manual_seed(_mixed(config.seed, step))
            generator = torch.Generator().manual_seed(_mixed(config.seed, step) + 1)
            for group in optimizer.param_groups:
                done = step / config.steps
                group["lr"] = config.rate * group["share"] * rate_factor(config.schedule, done, warmup=config.warmup)
            indices = batches(step).tolist()
            mel, lengths = (part.to(config.device) for part in padded([frames[i] for i in indices]))
            value, numbers = loss(mel, lengths, indices, generator)
            number = float(value.detach())
            if not math.isfinite(number):
                raise RuntimeError(f"the loss of step {step} is {number}: pass a lower rate than {config.rate}")
            optimizer.zero_grad(set_to_none=True)
            value.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
            optimizer.step()
            history.append({"loss": number, **numbers})
            step += 1
            bar.update()
            if config.checkpoint is not None and (step % config.checkpoint_every == 0 or step == config.steps):
                state = {"step": step, "history": history, "seconds": time.perf_counter() - began}
                _keep(model, optimizer, config, {"config": identity, **state})
    return {"history": history, "seconds": time.perf_counter() - began}


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
                "share": config.encoder_share if of_encoder else 1.0,
                "weight_decay": config.weight_decay if matrix else 0.0,
            }
            for (of_encoder, matrix), parameters in groups.items()
        ],
        lr=config.rate,
        betas=config.betas,
    )


def _identity(config: SpeechTraining) -> dict[str, Any]:
    free = ("checkpoint", "checkpoint_every", "device", "progress")
    return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(config).items() if k not in free}


def _keep(model: nn.Module, optimizer: torch.optim.Optimizer, config: SpeechTraining, state: dict[str, Any]) -> None:
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    for i, of_parameter in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{i}.{name}": torch.as_tensor(value) for name, value in of_parameter.items()}
    save_checkpoint(config.checkpoint, tensors, state)


def _restored(
    model: nn.Module, optimizer: torch.optim.Optimizer, config: SpeechTraining, identity: Mapping[str, Any]
) -> tuple[int, list[dict[str, float]], float]:
    """(steps done, their history, their seconds), the model and the optimiser being put where they were then."""
    if config.checkpoint is None or not Path(config.checkpoint).exists():
        return 0, [], 0.0
    tensors, state = load_checkpoint(config.checkpoint)
    with in_one_line(config.checkpoint):
        return _put_back(model, optimizer, config, identity, tensors, state)


def _put_back(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    config: SpeechTraining,
    identity: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    state: Mapping[str, Any],
) -> tuple[int, list[dict[str, float]], float]:
    """See `_restored`."""
    # one that was written before more was kept is compared by what it has
    other = [name for name, value in state["config"].items() if identity.get(name) != value]
    if other:
        raise ValueError(
            f"{config.checkpoint} is of a training with another configuration ({', '.join(other)}): choose another file"
        )
    named = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    shapes = {name: value.shape for name, value in model.state_dict().items()}
    if shapes != {name: value.shape for name, value in named.items()}:
        raise ValueError(f"{config.checkpoint} is of a training of another model: choose another file")
    model.load_state_dict(named)
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimizer."):
            _, i, which = name.split(".", 2)
            moments.setdefault(int(i), {})[which] = value
    if type(state["step"]) is not int or not 0 <= state["step"] < 2**53 or not isinstance(state["history"], list):
        raise ValueError(f"{config.checkpoint} is damaged: it does not say how many steps were done")
    for i, parameter in enumerate(p for group in optimizer.param_groups for p in group["params"]):
        for value in moments.get(i, {}).values():
            if value.numel() != 1 and value.shape != parameter.shape:
                raise ValueError(f"{config.checkpoint} is of a training of another model: choose another file")
    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
    return state["step"], list(state["history"]), float(state.get("seconds", 0.0))
