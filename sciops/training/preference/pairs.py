"""Pairs of a preferred and a rejected output for the same input, and batches of them by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sciops.grids import Grid, check_on_grid
from sciops.training.objectives.tokens import NOT_ASKED


@dataclass(frozen=True)
class TokenPairs:
    """Pairs of texts that continue the same prompt; index 0 is the preferred one, 1 the rejected one.

    tokens : (2, batch, n) whole numbers, prompt and continuation without its last token
    targets : (2, batch, n) the token that follows each, −100 at the prompt and at padding
    reference : (2, batch) log-probabilities under the reference model, where they are known

    ``len(pairs)`` is the number of pairs, ``pairs.rows(indices)`` some of them.
    """

    tokens: Tensor
    targets: Tensor
    reference: Tensor | None = None

    def __post_init__(self) -> None:
        if self.tokens.ndim != 3 or len(self.tokens) != 2 or self.tokens.shape != self.targets.shape:
            raise ValueError(
                f"tokens of shape {tuple(self.tokens.shape)} and targets of shape {tuple(self.targets.shape)}: "
                "expected (2, batch, n) of both; sciops.training.preference.token_pairs makes them of texts"
            )

    def __len__(self) -> int:
        return self.tokens.shape[1]

    def rows(self, indices: Any) -> TokenPairs:
        """These of the pairs."""
        reference = None if self.reference is None else self.reference[:, indices]
        return TokenPairs(self.tokens[:, indices], self.targets[:, indices], reference)


@dataclass(frozen=True)
class FieldPairs:
    """Pairs of fields for the same input, such as a solution and one that ignores part of the coefficient.

    x : (batch, channels, *grid) inputs of the model
    chosen, rejected : (batch, channels, *grid) preferred and rejected outputs
    grid : of all of them
    reference : (2, batch) log-probabilities under the reference model, where they are known
    """

    x: Tensor
    chosen: Tensor
    rejected: Tensor
    grid: Grid | None = None
    reference: Tensor | None = None

    def __post_init__(self) -> None:
        if self.chosen.shape != self.rejected.shape or len(self.x) != len(self.chosen):
            raise ValueError(
                f"inputs of shape {tuple(self.x.shape)}, preferred outputs {tuple(self.chosen.shape)}, rejected ones "
                f"{tuple(self.rejected.shape)}: expected as many of each, and outputs of equal shapes"
            )
        if self.grid is not None:
            check_on_grid(self.chosen, self.grid, "chosen")

    def __len__(self) -> int:
        return len(self.x)

    def rows(self, indices: Any) -> FieldPairs:
        """These of the pairs."""
        reference = None if self.reference is None else self.reference[:, indices]
        return FieldPairs(self.x[indices], self.chosen[indices], self.rejected[indices], self.grid, reference)


def token_pairs(
    prompts: Sequence[Sequence[int]],
    chosen: Sequence[Sequence[int]],
    rejected: Sequence[Sequence[int]],
    *,
    cut: bool = False,
    padding: int = 0,
) -> TokenPairs:
    """Pairs of texts from lists of tokens.

    Parameters
    ----------
    prompts, chosen, rejected : sequences of sequences of int
        One prompt, one preferred and one rejected continuation a pair, each of at least one token.
    cut : bool
        Cuts a rejected continuation to the length of the preferred one. Rejected texts that miss their end are longer,
        and the sum over tokens would teach length.
    padding : int
        The token at places that are not read.

    Returns
    -------
    TokenPairs

    Raises
    ------
    ValueError
        For other numbers of texts, and for empty ones.
    """
    if not len(prompts) == len(chosen) == len(rejected) or not len(prompts):
        raise ValueError(
            f"{len(prompts)} prompts, {len(chosen)} preferred and {len(rejected)} rejected texts: expected as many of "
            "each, at least one"
        )
    sides = []
    for side, name in ((chosen, "preferred"), (rejected, "rejected")):
        for i, (prompt, text) in enumerate(zip(prompts, side)):
            if not len(prompt) or not len(text):
                what = "prompt" if not len(prompt) else f"{name} text"
                raise ValueError(f"the {what} of pair {i} is empty: expected at least one token")
        sides.append([list(map(int, text)) for text in side])
    if cut:
        sides[1] = [text[: len(model)] for text, model in zip(sides[1], sides[0])]
    longest = max(len(prompt) + len(text) for side in sides for prompt, text in zip(prompts, side)) - 1
    tokens = torch.full((2, len(prompts), longest), padding, dtype=torch.int64)
    targets = torch.full_like(tokens, NOT_ASKED)
    for k, side in enumerate(sides):
        for i, (prompt, text) in enumerate(zip(prompts, side)):
            whole = torch.tensor([*map(int, prompt), *text])
            tokens[k, i, : len(whole) - 1] = whole[:-1]
            targets[k, i, len(prompt) - 1 : len(whole) - 1] = whole[len(prompt) :]
    return TokenPairs(tokens, targets)


class Batches:
    """Shuffled batches as a function of the step, ``batches(step)``, which is what `sciops.training.fit` takes.

    Parameters
    ----------
    samples : TokenPairs, FieldPairs, or anything with ``len`` and ``rows(indices)``
    batch_size : int
        Samples a step, at most all of them.
    seed : int
        Of the order; epoch e is shuffled by (seed, e), so that a resumed run sees the same batches.

    Raises
    ------
    ValueError
        For a batch size below 1 and for no samples.
    """

    def __init__(self, samples: Any, *, batch_size: int, seed: int) -> None:
        if batch_size < 1 or not len(samples):
            raise ValueError(f"batch_size={batch_size!r} of {len(samples)} samples: expected at least 1 of each")
        self.samples, self.batch_size, self.seed = samples, min(int(batch_size), len(samples)), seed
        self.about = {"samples": len(samples), "batch_size": self.batch_size, "seed": seed}

    def __call__(self, step: int) -> Any:
        epoch, number = divmod(step, len(self.samples) // self.batch_size)
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.samples))
        rows = order[number * self.batch_size : (number + 1) * self.batch_size]
        return self.samples.rows(torch.from_numpy(rows))
