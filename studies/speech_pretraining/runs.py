"""The trainings of the study of speech: encoders of one size, BEST-RQ, CTC with two heads, a record each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from sciops.files.json_files import plain
from sciops.files.tensor_files import opened_tensors
from sciops.models import match_parameters
from sciops.models.sequences.speech import SpeechEncoder
from sciops.training import load_checkpoint, save_checkpoint
from sciops.training.speech import (
    BestRQ,
    SpeechTraining,
    character_error_rate,
    ctc_loss,
    decoded,
    fit_steps,
    masked_accuracy,
    phoneme_error_rate,
    pretrain,
)
from studies.kit.cells import cell_name, kept
from studies.kit.study import picked
from studies.speech_pretraining.data import Part, Speech

if TYPE_CHECKING:
    from studies.speech_pretraining import Config

OPTIONS: dict[str, dict[str, Any]] = {"self_attention": {"positions": "rope"}}
ARMS = ("scratch", "pretrained", "longer")


class TwoHeads(nn.Module):
    """An encoder, and a linear map to letters and to phonemes, learned together."""

    def __init__(self, encoder: SpeechEncoder, symbols: Mapping[str, Sequence[str]]) -> None:
        super().__init__()
        self.encoder = encoder
        self.heads = nn.ModuleDict({k: nn.Linear(encoder.out_channels, len(v) + 1) for k, v in symbols.items()})

    def encoded(self, mel: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        return self.encoder.encode(self.encoder.normalize(mel, frames), frames)

    def scores(self, kind: str) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
        def scored(mel: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
            z, tokens = self.encoded(mel, frames)
            return self.heads[kind](z), tokens

        return scored


def maker(config: Config, mixer: str, sample_rate: int) -> Callable[[], SpeechEncoder]:
    """Constructor of the encoder with `mixer` that has config.parameters ± 3 % parameters; seed torch before a call."""

    def make(width: int, ratio: float) -> SpeechEncoder:
        mixing = {"mixer": mixer, "mixer_options": OPTIONS.get(mixer), "mlp_ratio": ratio}
        shape = picked(config, "depth local front_channels bins dropout")
        return SpeechEncoder(out_channels=width, sample_rate=sample_rate, updates=0, **mixing, **shape)

    width, ratio = match_parameters(make, config.parameters, step=8)
    return lambda: make(width, ratio)


def fresh(config: Config, mixer: str, seed: int, data: Speech) -> SpeechEncoder:
    """An encoder before any training, whose bins have the mean and variance of all training recordings."""
    torch.manual_seed(seed)
    encoder = maker(config, mixer, data.sample_rate)()
    every = torch.cat(data.unlabelled.frames)[None]
    encoder.bin_norm.update(every, torch.ones(every.shape[:2], dtype=torch.bool))
    return encoder


def best_rq(config: Config, encoder: SpeechEncoder, seed: int) -> BestRQ:
    torch.manual_seed(10_000 + seed)
    return BestRQ(encoder, codes=config.codes, probability=config.probability, length=config.span, seed=seed)


def pretrained(config: Config, mixer: str, seed: int, data: Speech) -> dict[str, Any]:
    """The record of a pre-training; its encoder lies beside the record."""
    settings = SpeechTraining(
        steps=config.pretrain_steps, batch=config.batch, rate=config.pretrain_rate, seed=seed, device=config.device
    )

    def train(path: Path) -> dict[str, Any]:
        model = best_rq(config, fresh(config, mixer, seed, data), seed)
        before = masked_accuracy(model.to(config.device), data.test.frames)
        run = pretrain(model, data.unlabelled.frames, replace(settings, checkpoint=path.with_suffix(".checkpoint")))
        save_checkpoint(path.with_suffix(".safetensors"), model.encoder.state_dict(), {})
        shutil.rmtree(path.with_suffix(".checkpoint"), ignore_errors=True)
        return {
            "before": before,
            "after": masked_accuracy(model, data.test.frames),
            "curve": [row["accuracy"] for row in run["history"]],
            "loss": [row["loss"] for row in run["history"]],
            "seconds": run["seconds"],
            "parameters": sum(p.numel() for p in model.encoder.parameters()),
        }

    return _recorded(config, f"pretrain_{mixer}_{seed}", _about(config, data, settings, mixer), train)


def fine_tuned(config: Config, mixer: str, arm: str, rate: float, seed: int, data: Speech) -> dict[str, Any]:
    """The record of a CTC training of the labelled part, from nothing or from the pre-trained encoder; "longer" is from
    nothing and has the steps of pre-training too."""
    settings = SpeechTraining(
        steps=config.steps + (config.pretrain_steps if arm == "longer" else 0),
        batch=config.labelled_batch,
        rate=rate,
        seed=seed,
        device=config.device,
    )
    about = _about(config, data, settings, mixer) | {"arm": arm, "labelled": config.labelled, "beam": config.beam}
    if arm == "pretrained":
        start = pretrained(config, mixer, seed, data)
        about["start"] = start["key"]

    def train(path: Path) -> dict[str, Any]:
        encoder = fresh(config, mixer, seed, data)
        if arm == "pretrained":
            encoder.load_state_dict(_encoder_of(_folder(config) / f"{start['key']}.safetensors"))
        torch.manual_seed(20_000 + seed)
        model = TwoHeads(encoder, data.symbols)

        def loss(mel: Tensor, lengths: Tensor, indices: Sequence[int], generator: torch.Generator):
            z, tokens = model.encoded(mel, lengths)
            losses = [
                ctc_loss(model.heads[kind](z), tokens, [getattr(data.labelled, kind)[i] for i in indices]).mean()
                for kind in data.symbols
            ]
            return losses[0] + losses[1], {}

        checkpoint = path.with_suffix(".checkpoint")
        run = fit_steps(model, data.labelled.frames, loss, replace(settings, checkpoint=checkpoint))
        shutil.rmtree(checkpoint, ignore_errors=True)
        model.eval()
        return {
            "validation": error_rates(model, data.validation, data.symbols, config.device),
            "test": error_rates(model, data.test, data.symbols, config.device, beam=config.beam),
            "loss": [row["loss"] for row in run["history"]],
            "seconds": run["seconds"],
            "rate": rate,
        }

    return _recorded(config, f"{arm}_{mixer}_{seed}", about, train)


def _encoder_of(path: Path) -> dict[str, Tensor]:
    """The encoder beside a record; those of before there was a digest are plain files of tensors."""
    with opened_tensors(path) as file:
        plain_file = file.metadata() is None
    return load_file(path) if plain_file else load_checkpoint(path)[0]


def error_rates(
    model: TwoHeads, part: Part, symbols: Mapping[str, Sequence[str]], device: str, *, beam: int | None = None
) -> dict[str, float]:
    """{"letters": CER, "phonemes": PER} of the best paths; with `beam` {"letters_beam", "phonemes_beam"} too."""
    found = {}
    for kind, names in symbols.items():
        for key, width in ((kind, None), (f"{kind}_beam", beam)):
            if key != kind and beam is None:
                continue
            heard = decoded(model.scores(kind), part.frames, beam=width, device=device)
            said, got = ([[names[k - 1] for k in one] for one in many] for many in (getattr(part, kind), heard))
            if kind == "letters":
                found[key] = character_error_rate(["".join(one) for one in said], ["".join(one) for one in got])
            else:
                found[key] = phoneme_error_rate(said, got)
    return found


def _about(config: Config, data: Speech, settings: SpeechTraining, mixer: str) -> dict[str, Any]:
    shape = "parameters depth local front_channels bins dropout codes probability span"
    named = picked(config, f"{shape} validation test data_seed")
    return {"corpus": data.hash, "mixer": mixer, "options": OPTIONS.get(mixer), **named, "training": settings}


def _folder(config: Config) -> Path:
    return Path(config.output) / "records"


def _recorded(config: Config, label: str, about: Mapping[str, Any], train: Callable[[Path], dict[str, Any]]):
    """The record of a training, from its file where that is there; the training runs else."""
    about = plain(about)
    for free in ("checkpoint", "checkpoint_every", "progress"):
        about["training"].pop(free)
    folder = _folder(config)
    folder.mkdir(parents=True, exist_ok=True)
    key = cell_name(label, about)
    return kept(folder, label, about, lambda: train(folder / f"{key}.json") | {"key": key})
