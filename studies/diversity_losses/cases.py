"""The problems: what a model sees, every answer there is, and its probability under the model at any temperature.

Groups are what an answer is for: a number to be factorised, a first letter, a field. Their answers can be listed, so
that precision and recall are sums, without samples.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops.datasets import TokenSequences, read_corpus
from sciops.grids import Grid
from sciops.models import LanguageModel, apply_model, build_model
from sciops.training.objectives.precision_recall import Bins, Gaussian
from studies.diversity_losses.exact import LAW, alpha

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SPEEDS = (0.05, 0.25, -0.15, 0.45)  # displacements of a field, in periods, with the law of `exact.LAW`
LOW, HIGH, BINS, POINTS = -3.0, 3.0, 24, 32


@dataclass(frozen=True)
class Case:
    """Training samples x, y, the options of the likelihood, and a model.

    `measure(model, temperatures, lam)` gives, by split, "precision", "recall" (β_λ) and "alpha" (α_1), each a list
    (temperature, group).
    """

    name: str
    x: Tensor
    y: Tensor
    grid: Grid
    likelihood: Mapping[str, Any]

    def model(self, seed: int, width: int, depth: int) -> nn.Module:
        raise NotImplementedError

    def measure(self, model: nn.Module, temperatures: Sequence[float], lam: float) -> dict[str, Any]:
        raise NotImplementedError


@dataclass(frozen=True)
class Answers(Case):
    """Answers in tokens.

    symbols : number of tokens
    asked_x, asked_y : all valid answers (answer, n), as `TokenSequences` has them
    groups : split → (answer,) the group of each, −1 for none
    laws : split → (answer,) the probability of each in its group
    """

    symbols: int
    asked_x: Tensor
    asked_y: Tensor
    groups: Mapping[str, np.ndarray]
    laws: Mapping[str, np.ndarray]

    def model(self, seed: int, width: int, depth: int) -> nn.Module:
        torch.manual_seed(seed)
        return LanguageModel(self.symbols, width=width, depth=depth, mixer_options={"positions": "rope"})

    @torch.no_grad()
    def probabilities(self, model: nn.Module, temperatures: Sequence[float]) -> np.ndarray:
        """Q_τ of every answer, (temperature, answer): the product of the tempered conditionals."""
        logits = torch.cat([model(part) for part in self.asked_x.split(512)])
        asked, index = self.asked_y != -100, self.asked_y.clamp(min=0).unsqueeze(-1)
        found = []
        for t in temperatures:
            log_q = (logits.double() / t).log_softmax(-1).gather(-1, index).squeeze(-1)
            found.append((log_q * asked).sum(1).exp().numpy())
        return np.stack(found)

    def measure(self, model: nn.Module, temperatures: Sequence[float], lam: float) -> dict[str, Any]:
        q = self.probabilities(model, temperatures)
        found: dict[str, Any] = {}
        for split, group in self.groups.items():
            of = [group == g for g in range(group.max() + 1)]
            p = self.laws[split]
            found[split] = {
                "precision": [[float(row[own].sum()) for own in of] for row in q],
                "recall": [[float(alpha(p[own], row[own], lam)) / lam for own in of] for row in q],
                "alpha": [[float(alpha(p[own], row[own], 1.0)) for own in of] for row in q],
            }
        return found


@dataclass(frozen=True)
class Displaced(Case):
    """Fields displaced by one of `SPEEDS`, in bins or Gaussian; fields: split → initial fields (sample, 1, point)."""

    fields: Mapping[str, Tensor]
    laws: Mapping[str, np.ndarray]  # split → (sample, point, bin)

    def model(self, seed: int, width: int, depth: int) -> nn.Module:
        torch.manual_seed(seed)
        channels = 2 if self.likelihood["likelihood"] == "gaussian" else BINS
        options: dict[str, Any] = {"width": width // 2, "depth": depth, "modes": (8,), "grid": self.grid}
        return build_model("fno", in_channels=1, out_channels=channels, **options)

    @torch.no_grad()
    def probabilities(self, model: nn.Module, fields: Tensor, temperature: float) -> np.ndarray:
        """The probability of each bin at a temperature, (sample, point, bin); of a Gaussian the integral over it."""
        prediction = apply_model(model, fields, self.grid).double()
        if self.likelihood["likelihood"] == "bins":
            logits = Bins(BINS, LOW, HIGH).logits(prediction)
            return (logits / temperature).softmax(-1)[:, 0].numpy()
        mean, log_sigma = Gaussian(self.likelihood["floor"]).moments(prediction)
        edges = torch.linspace(LOW, HIGH, BINS + 1, dtype=torch.float64)[1:-1]
        z = (edges - mean[:, 0, :, None]) / (temperature**0.5 * log_sigma[:, 0, :, None].exp())
        below = torch.special.ndtr(z)
        ends = torch.zeros_like(below[..., :1])
        return torch.cat([ends, below, ends + 1], -1).diff(dim=-1).numpy()

    def measure(self, model: nn.Module, temperatures: Sequence[float], lam: float) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for split, fields in self.fields.items():
            p = self.laws[split]
            rows: dict[str, list[list[float]]] = {"precision": [], "recall": [], "alpha": []}
            for t in temperatures:
                q = self.probabilities(model, fields, t)
                rows["precision"].append((q * (p > 0)).sum(-1).mean(1).tolist())
                rows["recall"].append((alpha(p, q, lam) / lam).mean(1).tolist())
                rows["alpha"].append(alpha(p, q, 1.0).mean(1).tolist())
            found[split] = rows
        return found


@lru_cache(maxsize=4)
def case_of(name: str, *, words: int, fields: int, corpus: str) -> Case:
    """The problem of a name: "multiplication", "words", "bins" or "gaussian"."""
    return {"multiplication": multiplication, "words": lambda: spelling(corpus, words)}.get(
        name, lambda: displaced(name, fields)
    )()


def multiplication(largest: int = 99, *, fewest: int = 4) -> Answers:
    """n = a·b as text, "12=3*4": half of each number's factorisations are shown, numbers with four or more are asked.

    Even ones among them, in their order, are for validation, the others for the test.
    """
    symbols = "0123456789*=$"
    rng = np.random.default_rng(0)
    shown, answers, numbers = [], [], []
    for n in range(1, largest + 1):
        own = [f"{n:02d}={a}*{n // a}$" for a in range(1, n + 1) if n % a == 0]
        shown += [own[i] for i in rng.permutation(len(own))[: -(-len(own) // 2)]]
        answers += own
        numbers += [n] * len(own)
    count = Counter(numbers)
    asked = [n for n in sorted(count) if count[n] >= fewest]
    sides = {"validation": asked[::2], "test": asked[1::2]}
    groups = {s: np.array([own.index(n) if n in own else -1 for n in numbers]) for s, own in sides.items()}
    law = np.array([1 / count[n] for n in numbers])
    x, y = _after_prompt([[symbols.index(c) for c in text] for text in shown], 3)
    asked_x, asked_y = _after_prompt([[symbols.index(c) for c in text] for text in answers], 3)
    grid = Grid((x.shape[1],), centering="cell")
    laws = dict.fromkeys(sides, law)
    return Answers("multiplication", x, y, grid, {}, len(symbols), asked_x, asked_y, groups, laws)


def spelling(corpus: str, words: int, *, fewest: int = 20) -> Answers:
    """The words of a real text, letter by letter after the first one: `words` of them are shown.

    The laws of validation and test are the frequencies of the words of the text's last two tenths; every word of the
    text is valid. Groups are first letters with at least `fewest` different words.
    """
    found = [w for w in re.findall(r"[a-z]+", read_corpus(corpus).lower()) if 3 <= len(w) <= 9]
    tenth = len(found) // 10
    parts = {"validation": found[-2 * tenth : -tenth], "test": found[-tenth:]}
    every = sorted(set(found))
    kinds = Counter(w[0] for w in every)
    letters = [c for c in LETTERS if kinds[c] >= fewest]
    every = [w for w in every if w[0] in letters]
    laws = {}
    for split, part in parts.items():
        counts = Counter(part)
        whole = {c: sum(counts[w] for w in every if w[0] == c) for c in letters}
        laws[split] = np.array([counts[w] / max(1, whole[w[0]]) for w in every])
    group = np.array([letters.index(w[0]) for w in every])
    encoded = [[LETTERS.index(c) for c in w] + [26] for w in every]
    shown = [[LETTERS.index(c) for c in w] + [26] for w in found[: min(words, 8 * tenth)]]
    x, y = _after_prompt(shown, 1)
    asked_x, asked_y = _after_prompt(encoded, 1)
    grid = Grid((x.shape[1],), centering="cell")
    return Answers("words", x, y, grid, {}, 27, asked_x, asked_y, dict.fromkeys(parts, group), laws)


def displaced(likelihood: str, fields: int, *, held: int = 32) -> Displaced:
    """u(x) = u₀(x − s), u₀ of three modes with unit variance and period 1, s of `SPEEDS`: the field has four answers.

    Each of `fields` initial fields is shown with one of them, drawn by their law.
    """
    rng = np.random.default_rng(0)
    grid = Grid((POINTS,), centering="periodic")
    points = grid.coordinates()[0]
    amplitude = rng.standard_normal((fields + 2 * held, 3, 2))
    amplitude /= np.sqrt(np.square(amplitude).sum((1, 2), keepdims=True) / 2)
    speed = rng.choice(len(SPEEDS), fields + 2 * held, p=LAW)

    def at(shift: np.ndarray) -> Tensor:
        angles = 2 * np.pi * np.arange(1, 4)[:, None] * (points - shift[:, None, None])
        u = (amplitude[..., :1] * np.cos(angles) + amplitude[..., 1:] * np.sin(angles)).sum(1, keepdims=True)
        return torch.from_numpy(u).float()

    u0, seen = at(np.zeros(len(speed))), at(np.array(SPEEDS)[speed])
    bins = Bins(BINS, LOW, HIGH)
    index = torch.stack([bins.indices(at(np.full(len(speed), s))[:, 0]) for s in SPEEDS], -1).numpy()
    law = np.zeros((len(speed), POINTS, BINS))
    for k, p in enumerate(LAW):
        np.put_along_axis(law, index[..., k : k + 1], np.take_along_axis(law, index[..., k : k + 1], -1) + p, -1)
    sides = {"validation": slice(fields, fields + held), "test": slice(fields + held, None)}
    options = {"bins": {"bins": BINS, "low": LOW, "high": HIGH}, "gaussian": {"floor": 0.02}}[likelihood]
    return Displaced(
        likelihood,
        u0[:fields],
        seen[:fields],
        grid,
        {"likelihood": likelihood, **options},
        {split: u0[part] for split, part in sides.items()},
        {split: law[part] for split, part in sides.items()},
    )


def _after_prompt(rows: Sequence[Sequence[int]], prompt: int) -> tuple[Tensor, Tensor]:
    """(x, y) for the next token, asked for from the one that follows the first `prompt` tokens."""
    targets = [[-100] * (prompt - 1) + list(row[prompt:]) for row in rows]
    data = TokenSequences([row[:-1] for row in rows], targets)
    return data.x, data.y
