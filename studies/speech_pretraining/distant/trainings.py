"""The trainings on recordings of words: the word and its class at every token, and the errors by word."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sciops.training.speech import SpeechTraining, fit_steps
from sciops.training.speech.frames import padded
from studies.kit.study import picked
from studies.speech_pretraining.distant.recordings import Recordings, Spoken
from studies.speech_pretraining.runs import TwoHeads, about_training, fresh, recorded, stored_encoder

if TYPE_CHECKING:
    from studies.speech_pretraining import Config


def own_settings(config: Config) -> Config:
    """The configuration with what `config.distant` says of encoders and trainings in place of its own."""
    named = "parameters depth local front_channels bins codes labelled_batch pretrain_steps batch"
    return replace(config, **picked(config.distant, named), dropout=0.0)


def trained(
    config: Config,
    task: str,
    mixer: str,
    rate: float,
    seed: int,
    data: Spoken,
    start: Mapping[str, Any] | None = None,
    *,
    times: int = 1,
) -> dict[str, Any]:
    """The record of a training on one task, from nothing or from the pre-trained encoder of the record `start`.

    times : the task's number of steps is taken so many times

    At every token of a word two linear maps name the word and its class; the loss is the sum of both cross-entropies.
    """
    own = own_settings(config)
    arm = "pretrained" if start is not None else "scratch" if times == 1 else "longer"
    steps = times * dict(zip(own.distant.tasks, own.distant.steps))[task]
    settings = SpeechTraining(steps=steps, batch=own.labelled_batch, rate=rate, seed=seed, device=own.device)
    distant = picked(own.distant, "vocabulary keys words most pauses recordings validated tested validation test")
    about = about_training(own, data, settings, mixer) | {"task": task, "arm": arm, "distant": distant}
    if start is not None:
        about["start"] = start["key"]

    def train(path: Path) -> dict[str, Any]:
        encoder = fresh(own, mixer, seed, data)
        if start is not None:
            encoder.load_state_dict(stored_encoder(own, start))
        torch.manual_seed(20_000 + seed)
        model = TwoHeads(encoder, {kind: data.symbols[kind] for kind in ("words", task)})
        targets = {"words": data.unlabelled.said, task: data.targets[task]["unlabelled"]}
        by_token = {kind: _by_token(data.unlabelled, values) for kind, values in targets.items()}

        def loss(mel: Tensor, lengths: Tensor, indices: Sequence[int], generator: torch.Generator):
            z, _ = model.encoded(mel, lengths)
            losses = {}
            for kind, values in by_token.items():
                wanted = torch.nn.utils.rnn.pad_sequence([values[i] for i in indices], batch_first=True).to(z.device)
                losses[kind] = F.cross_entropy(model.heads[kind](z).mT, wanted, ignore_index=0)
            return losses["words"] + losses[task], {"task": float(losses[task].detach())}

        checkpoint = path.with_suffix(".checkpoint")
        run = fit_steps(model, data.unlabelled.frames, loss, replace(settings, checkpoint=checkpoint))
        shutil.rmtree(checkpoint, ignore_errors=True)
        model.eval()
        wrong = lambda name, kind: word_errors(  # noqa: E731
            model, kind, getattr(data, name), _wanted(data, name, kind), own.device
        )
        test, speakers = wrong("test", task)
        return {
            "validation": wrong("validation", task)[0],
            "test": test,
            "speakers": speakers,
            "words": wrong("test", "words")[0],
            "curve": [row["task"] for row in run["history"]],
            "seconds": run["seconds"],
            "rate": rate,
            "parameters": sum(p.numel() for p in encoder.parameters()),
        }

    return recorded(own, f"{task}_{arm}_{mixer}_{seed}", about, train)


def _wanted(data: Spoken, name: str, kind: str) -> Sequence[np.ndarray]:
    return getattr(data, name).said if kind == "words" else data.targets[kind][name]


def _by_token(part: Recordings, values: Sequence[np.ndarray]) -> list[Tensor]:
    """Values by word as values by token, 0 in pauses."""
    return [torch.from_numpy(np.concatenate([[0], one]))[place] for one, place in zip(values, part.place)]


@torch.no_grad()
def word_errors(
    model: TwoHeads, kind: str, part: Recordings, wanted: Sequence[np.ndarray], device: str = "cpu"
) -> tuple[float, list[float]]:
    """Share of the words with a class whose class is not the likeliest, by the sum of log p over the word's tokens.

    wanted : (words,) classes from 1 on for each recording, 0 where none is asked. Then the same for each speaker alone,
    in the order of their names.
    """
    everyone = sorted(set(part.speakers))
    wrong, asked = (dict.fromkeys(everyone, 0) for _ in range(2))
    for first in range(0, len(part.frames), 32):
        own = range(first, min(first + 32, len(part.frames)))
        mel, lengths = (one.to(device) for one in padded([part.frames[i] for i in own]))
        z, _ = model.encoded(mel, lengths)
        scores = model.heads[kind](z)[..., 1:].log_softmax(-1).cpu()
        for i, row in zip(own, scores):
            place, of = part.place[i], torch.from_numpy(wanted[i])
            total = torch.zeros(len(of) + 1, row.shape[1]).index_add_(0, place, row[: len(place)])[1:]
            wrong[part.speakers[i]] += int((total.argmax(-1) + 1 != of)[of > 0].sum())
            asked[part.speakers[i]] += int((of > 0).sum())
    rates = [wrong[name] / asked[name] for name in everyone]
    return sum(wrong.values()) / sum(asked.values()), rates
