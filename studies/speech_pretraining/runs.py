"""The trainings of the study of speech: encoders of one size, BEST-RQ, CTC with two heads, a record each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
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
from sciops.training.speech.frames import padded
from studies.kit.cells import cell_name, kept
from studies.kit.study import picked
from studies.speech_pretraining.data import Part, Speech

if TYPE_CHECKING:
    from studies.speech_pretraining import Config
    from studies.speech_pretraining.distant.recordings import Spoken

ARMS = ("scratch", "pretrained", "longer", "probe")


class Encoder(NamedTuple):
    """What mixes the tokens of an encoder: a mixer of `sciops.mixers.MIXERS` with options, and depthwise convolutions.

    gate : False replaces the polynomial mixer's gate by 1, so that all tokens read the same.
    """

    mixer: str
    options: dict[str, Any] | None = None
    gate: bool = True
    local: bool = True


# weights of a mixer of d channels, degree k, expansion e: 3ked² (branch) or 3ed² (coefficients); attention and mean
# pooling have 4d²
ENCODERS = {
    "self_attention": Encoder("self_attention", {"positions": "rope"}),
    "polynomial": Encoder("polynomial"),
    "polynomial_4d": Encoder("polynomial", {"expansion": 2 / 3}),
    "polynomial_v2": Encoder("polynomial", {"variant": "coefficients", "expansion": 4 / 3}),
    "degree_1": Encoder("polynomial", {"degree": 1, "expansion": 4 / 3}),
    "degree_3": Encoder("polynomial", {"degree": 3, "expansion": 4 / 9}),
    "no_gate": Encoder("polynomial", {"expansion": 1}, gate=False),
    "no_convolution": Encoder("none", local=False),
}
"""The encoders by name; any other name is that of a mixer with its own options."""


class OpenGate(nn.Module):
    """(…, channels) → (…, features) of 30, whose sigmoid is 1 in float32: what a gate that is off is given."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features

    def forward(self, x: Tensor) -> Tensor:
        return x.new_full((*x.shape[:-1], self.features), 30.0)


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


def encoder_of(name: str) -> Encoder:
    return ENCODERS.get(name, Encoder(name))


def maker(config: Config, mixer: str, sample_rate: int) -> Callable[[], SpeechEncoder]:
    """Constructor of the encoder with `mixer` that has config.parameters ± 3 % parameters; seed torch before a call."""

    kind = encoder_of(mixer)

    def make(width: int, ratio: float) -> SpeechEncoder:
        mixing = {"mixer": kind.mixer, "mixer_options": kind.options, "mlp_ratio": ratio}
        shape = picked(config, "depth local front_channels bins dropout")
        shape["local"] *= kind.local
        made = SpeechEncoder(out_channels=width, sample_rate=sample_rate, updates=0, **mixing, **shape)
        if not kind.gate:
            for block in made.stack.blocks:
                block.mixer.to_gate = OpenGate(block.mixer.gate_heads)
        return made

    width, ratio = match_parameters(make, config.parameters, step=8)
    return lambda: make(width, ratio)


def fresh(config: Config, mixer: str, seed: int, data: Speech | Spoken) -> SpeechEncoder:
    """An encoder before any training, whose bins have the mean and variance of all training recordings."""
    torch.manual_seed(seed)
    encoder = maker(config, mixer, data.sample_rate)()
    every = torch.cat(data.unlabelled.frames)[None]
    encoder.bin_norm.update(every, torch.ones(every.shape[:2], dtype=torch.bool))
    return encoder


def best_rq(config: Config, encoder: SpeechEncoder, seed: int) -> BestRQ:
    torch.manual_seed(10_000 + seed)
    return BestRQ(encoder, codes=config.codes, probability=config.probability, length=config.span, seed=seed)


def pretrained(config: Config, mixer: str, rate: float, seed: int, data: Speech | Spoken) -> dict[str, Any]:
    """The record of a pre-training; its encoder lies beside the record."""
    settings = SpeechTraining(
        steps=config.pretrain_steps, batch=config.batch, rate=rate, seed=seed, device=config.device
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
            "validation": masked_accuracy(model, data.validation.frames),
            "rate": rate,
            "curve": [row["accuracy"] for row in run["history"]],
            "loss": [row["loss"] for row in run["history"]],
            "seconds": run["seconds"],
            "parameters": sum(p.numel() for p in model.encoder.parameters()),
        }

    return recorded(config, f"pretrain_{mixer}_{seed}", about_training(config, data, settings, mixer), train)


def fine_tuned(
    config: Config,
    mixer: str,
    arm: str,
    rate: float,
    seed: int,
    data: Speech,
    start: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The record of a training on the labelled part, by CTC or, with targets of "tokens", by the phoneme of each token.

    arm : "scratch" from nothing; "longer" the same with the steps of pre-training on top; "pretrained" from the encoder
        of the record `start`; "probe" the same with that encoder frozen, so that only the two linear maps learn
    """
    settings = SpeechTraining(
        steps=config.steps + (config.pretrain_steps if arm == "longer" else 0),
        batch=config.labelled_batch,
        rate=rate,
        seed=seed,
        device=config.device,
    )
    about = about_training(config, data, settings, mixer) | {
        "arm": arm,
        "labelled": config.labelled,
        "beam": config.beam,
    }
    about["test_seconds"] = config.test_seconds if arm == "pretrained" else ()
    if start is not None:
        about["start"] = start["key"]

    def train(path: Path) -> dict[str, Any]:
        encoder = fresh(config, mixer, seed, data)
        if start is not None:
            encoder.load_state_dict(stored_encoder(config, start))
        torch.manual_seed(20_000 + seed)
        model = TwoHeads(encoder, data.symbols)
        if arm == "probe":
            encoder.requires_grad_(False)

        def loss(mel: Tensor, lengths: Tensor, indices: Sequence[int], generator: torch.Generator):
            z, tokens = model.encoded(mel, lengths)
            if config.targets == "tokens":
                said = torch.cat([data.labelled.tokens[i] for i in indices]).to(z.device)
                heard = torch.cat([model.heads["phonemes"](one[:n]) for one, n in zip(z, tokens.tolist())])
                return F.cross_entropy(heard, said, ignore_index=0), {}
            losses = [
                ctc_loss(model.heads[kind](z), tokens, [getattr(data.labelled, kind)[i] for i in indices]).mean()
                for kind in data.symbols
            ]
            return losses[0] + losses[1], {}

        checkpoint = path.with_suffix(".checkpoint")
        run = fit_steps(model, data.labelled.frames, loss, replace(settings, checkpoint=checkpoint))
        shutil.rmtree(checkpoint, ignore_errors=True)
        model.eval()

        def errors(part: Part, beam: int | None = None) -> tuple[dict[str, float], dict[str, list[float]]]:
            if config.targets == "tokens":
                return token_errors(model, part, config.device)
            return error_rates(model, part, data.symbols, config.device, beam=beam)

        test, speakers = errors(data.test, config.beam)
        others = data.lengths if arm == "pretrained" else {}
        return {
            "validation": errors(data.validation)[0],
            "test": test,
            "speakers": speakers,
            "lengths": {f"{s:g}": errors(part)[0] for s, part in others.items()},
            "loss": [row["loss"] for row in run["history"]],
            "seconds": run["seconds"],
            "rate": rate,
            "parameters": sum(p.numel() for p in model.encoder.parameters()),
        }

    return recorded(config, f"{arm}_{mixer}_{seed}", about, train)


def stored_encoder(config: Config, record: Mapping[str, Any]) -> dict[str, Tensor]:
    """The encoder beside the record of a pre-training; files from before there was a digest are plain tensors."""
    path = _folder(config) / f"{record['key']}.safetensors"
    with opened_tensors(path) as file:
        plain_file = file.metadata() is None
    return load_file(path) if plain_file else load_checkpoint(path)[0]


def error_rates(
    model: TwoHeads, part: Part, symbols: Mapping[str, Sequence[str]], device: str, *, beam: int | None = None
) -> tuple[dict[str, float], dict[str, list[float]]]:
    """{"letters": CER, "phonemes": PER} of the best paths; with `beam` {"letters_beam", "phonemes_beam"} too.

    Then the same for each speaker alone, in the order of their names.
    """
    found, speakers = {}, {}
    every = sorted(set(part.speakers))
    of = [[i for i, name in enumerate(part.speakers) if name == speaker] for speaker in every]
    for kind, names in symbols.items():
        for key, width in ((kind, None), (f"{kind}_beam", beam)):
            if key != kind and beam is None:
                continue
            heard = decoded(model.scores(kind), part.frames, beam=width, device=device)
            said, got = ([[names[k - 1] for k in one] for one in many] for many in (getattr(part, kind), heard))
            rate: Callable[..., float] = phoneme_error_rate
            if kind == "letters":
                rate = character_error_rate
                said, got = (["".join(one) for one in many] for many in (said, got))
            found[key] = rate(said, got)
            speakers[key] = [rate([said[i] for i in own], [got[i] for i in own]) for own in of]
    return found, speakers


@torch.no_grad()
def token_errors(model: TwoHeads, part: Part, device: str) -> tuple[dict[str, float], dict[str, list[float]]]:
    """{"phonemes": share of spoken tokens that get another phoneme than the one said}, and the same by speaker."""
    every = sorted(set(part.speakers))
    wrong, of = (dict.fromkeys(every, 0) for _ in range(2))
    for first in range(0, len(part.frames), 16):
        own = range(first, min(first + 16, len(part.frames)))
        mel, lengths = (one.to(device) for one in padded([part.frames[i] for i in own]))
        z, _ = model.encoded(mel, lengths)
        heard = model.heads["phonemes"](z)[..., 1:].argmax(-1).cpu() + 1
        for i, row in zip(own, heard):
            said = part.tokens[i]
            wrong[part.speakers[i]] += int((row[: len(said)] != said)[said > 0].sum())
            of[part.speakers[i]] += int((said > 0).sum())
    rates = [wrong[name] / of[name] for name in every]
    return {"phonemes": sum(wrong.values()) / sum(of.values())}, {"phonemes": rates}


def about_training(config: Config, data: Speech | Spoken, settings: SpeechTraining, mixer: str) -> dict[str, Any]:
    shape = "parameters depth local front_channels bins dropout codes probability span"
    named = picked(config, f"{shape} validation test joined channel targets data_seed")
    encoder = encoder_of(mixer)._asdict()
    return {"corpus": data.hash, "mixer": mixer, "encoder": encoder, **named, "training": settings}


def _folder(config: Config) -> Path:
    return Path(config.output) / "records"


def recorded(config: Config, label: str, about: Mapping[str, Any], train: Callable[[Path], dict[str, Any]]):
    """The record of a training, from its file where that is there; the training runs else."""
    about = plain(about)
    for free in ("checkpoint", "checkpoint_every", "progress"):
        about["training"].pop(free)
    folder = _folder(config)
    folder.mkdir(parents=True, exist_ok=True)
    key = cell_name(label, about)
    return kept(folder, label, about, lambda: train(folder / f"{key}.json") | {"key": key})
