"""The text tasks: a prior, a model fine-tuned from it on the first half of the data, and arms on the second half."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops.models import LanguageModel, generate
from sciops.training.objectives import token_cross_entropy
from sciops.training.preference import Batches, TokenPreference, noisy_generate, token_pairs
from studies.faithful_generation.arms import Arm, train
from studies.faithful_generation.slots import (
    END,
    LENGTH,
    SEPARATOR,
    SYMBOLS,
    Tables,
    chain,
    tables,
    texts_of,
    well_formed,
    wrong_slots,
)

TASKS = {
    "prior": {"from_prior": 0.8, "ungrounded": 0.0},  # the tables of the training are what the prior expects
    "ungrounded": {"from_prior": 0.0, "ungrounded": 0.25},  # some references say what the prior expects
}
_PRIOR = 0.8  # probability that a value follows the rule in the texts of the prior
_HELD_OUT = {"validation": 10**6, "test": 10**6 + 1}  # seeds; tables of these follow no rule


@dataclass(frozen=True)
class TextSizes:
    """half : tables in each half of the data. held_out : tables that are scored. steps : of the second stage"""

    width: int
    depth: int
    prior_steps: int
    first_steps: int
    steps: int
    batch: int
    half: int
    held_out: int
    first_rate: float = 3e-3


@dataclass(frozen=True)
class _Texts:
    """tokens, targets : (samples, n), as `sciops.training.objectives.token_cross_entropy` takes them."""

    tokens: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return len(self.tokens)

    def rows(self, indices: Any) -> _Texts:
        return _Texts(self.tokens[indices], self.targets[indices])


def run_text(task: str, seed: int, sizes: TextSizes, arms: Sequence[Arm], split: str) -> dict[str, Any]:
    """{"base": scores of the model after the first half of the data, "arms": [scores of each]}."""
    rng = np.random.default_rng((seed, 1))
    first, second = (tables(sizes.half, rng=rng, **TASKS[task]) for _ in range(2))
    held_out = tables(sizes.held_out, from_prior=0.0, ungrounded=0.0, rng=np.random.default_rng(_HELD_OUT[split]))
    torch.manual_seed(seed)
    prior = LanguageModel(
        SYMBOLS, width=sizes.width, depth=sizes.depth, mixer_options={"heads": 4, "positions": "rope"}
    )

    def of_prior(step: int) -> _Texts:
        drawn = np.random.default_rng((seed, 2, step))
        return _sequences(np.full((64, 1), SEPARATOR), texts_of(chain(64, _PRIOR, drawn), drawn))

    train(prior, of_prior, _likelihood, steps=sizes.prior_steps, rate=3e-3)
    base = copy.deepcopy(prior)
    batches = Batches(_sequences(first.prompts, first.texts), batch_size=sizes.batch, seed=seed)
    train(base, batches, _likelihood, steps=sizes.first_steps, rate=sizes.first_rate)
    return {
        "base": _scores(base, held_out, seed),
        "arms": [_scored_arm(arm, prior, base, second, held_out, sizes, seed) for arm in arms],
    }


def _scored_arm(
    arm: Arm, prior: LanguageModel, base: LanguageModel, data: Tables, held_out: Tables, sizes: TextSizes, seed: int
) -> dict[str, Any]:
    model = copy.deepcopy(base)
    if arm.negatives is None:
        batches = Batches(_sequences(data.prompts, data.texts), batch_size=sizes.batch, seed=seed + 1)
        train(model, batches, _likelihood, steps=sizes.steps, rate=arm.rate, decay=arm.decay)
        return _scores(model, held_out, seed)
    rejected = _negatives(arm, prior, base, data, seed)
    objective = TokenPreference(base, beta=arm.beta, rpo_alpha=arm.anchor)
    pairs = objective.with_reference(token_pairs(data.prompts, data.texts, rejected, cut=True))
    batches = Batches(pairs, batch_size=sizes.batch, seed=seed + 1)
    train(model, batches, objective, steps=sizes.steps, rate=arm.rate, decay=arm.decay)
    ratios = objective.log_ratios(model, pairs)
    padded = np.array([[*text, *[END] * LENGTH][:LENGTH] for text in rejected])
    about = {
        "negative_error": float(wrong_slots(padded, data.values).mean()),
        "negative_form": float(well_formed(padded).mean()),
        "chosen": float(ratios.chosen.mean()),
        "rejected": float(ratios.rejected.mean()),
    }
    return _scores(model, held_out, seed) | about


def _negatives(arm: Arm, prior: LanguageModel, base: LanguageModel, data: Tables, seed: int) -> list[list[int]]:
    if arm.negatives == "random":  # the reference of another table
        return np.roll(data.texts, 1, axis=0).tolist()
    return noisy_generate(
        base,
        prior,
        torch.from_numpy(data.prompts),
        blind_prompt=[SEPARATOR],
        tokens=LENGTH,
        alpha=arm.alpha,
        stop=END,
        generator=torch.Generator().manual_seed(seed),
    ).texts()


def _scores(model: LanguageModel, data: Tables, seed: int) -> dict[str, Any]:
    """error : share of wrong slots of the likeliest text; errors : by table; form; error_sampled : at temperature 1."""
    prompts = torch.from_numpy(data.prompts)
    text = generate(model, prompts, tokens=LENGTH, temperature=0, stop=END).tokens.numpy()
    sampled = generate(
        model, prompts, tokens=LENGTH, stop=END, generator=torch.Generator().manual_seed(seed)
    ).tokens.numpy()
    errors = wrong_slots(text, data.values)
    return {
        "error": float(errors.mean()),
        "errors": errors.tolist(),
        "form": float(well_formed(text).mean()),
        "error_sampled": float(wrong_slots(sampled, data.values).mean()),
    }


def _sequences(prompts: np.ndarray, texts: np.ndarray) -> _Texts:
    whole = torch.from_numpy(np.concatenate([prompts, texts], 1))
    targets = whole[:, 1:].clone()
    targets[:, : prompts.shape[1] - 1] = -100
    return _Texts(whole[:, :-1], targets)


def _likelihood(model: nn.Module, batch: _Texts) -> Tensor:
    return token_cross_entropy(model(batch.tokens), batch.targets).mean()
