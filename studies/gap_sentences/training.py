"""One model of the study of gap sentences: pre-trained or not, fine-tuned on few summaries, and judged by ROUGE."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm.auto import tqdm

from sciops.evaluation import mean_rouge
from sciops.models import EncoderDecoder
from studies.gap_sentences.data import Corpus, Pair, copied
from studies.kit.stepping import train_by_step
from studies.kit.study import picked

PRETRAINED, SCRATCH, LONGER = "gap sentences", "from scratch", "from scratch, longer"
ENCODERS = ("state_space", "self_attention", "sparse_attention")
ARMS = (PRETRAINED, SCRATCH, LONGER)


@dataclass(frozen=True)
class Sizes:
    """What decides a training besides its arm, encoder and seed."""

    width: int
    depth: int
    state: int
    heads: int
    batch: int
    rate: float
    tuning: tuple[float, ...]
    dropout: float
    pretraining: int
    steps: int
    checks: int
    beams: int
    target_length: int
    window: int


def model_of(symbols: int, start: int, end: int, encoder: str, sizes: Sizes) -> EncoderDecoder:
    """An encoder–decoder; with state = width/4 the mixers of both kinds of encoder have about 4·width² parameters."""
    shape = picked(sizes, "width heads dropout") | {"encoder_depth": sizes.depth, "decoder_depth": sizes.depth}
    return EncoderDecoder(
        symbols, mixer=encoder, mixer_options=encoder_options(encoder, sizes), start=start, end=end, **shape
    )


def encoder_options(encoder: str, sizes: Sizes) -> dict[str, Any]:
    """Of the mixer of an encoder. The sparse one reads `window` tokens to each side and the means of blocks of 16."""
    attention = {"heads": sizes.heads, "positions": "rope"}
    return {
        "state_space": {"state": sizes.state},
        "self_attention": attention,
        "sparse_attention": attention | {"window": sizes.window, "block": 16},
        "none": {},
    }[encoder]


def train_once(
    corpus: Corpus, arm: str, encoder: str, few: Sequence[int], seed: int, sizes: Sizes, device: str = "cpu"
) -> dict[str, Any]:
    """{"parameters", "pretraining": …, "fine": one entry for each number of summaries in `few`}, see `fit`.

    The summaries of a seed are the same for all arms, the fewer among the more. Of the rates of fine-tuning that which
    validates best is judged; "validation by rate" has the others.
    """
    torch.manual_seed(seed)
    model = model_of(corpus.symbols, corpus.start, corpus.tokenizer.end, encoder, sizes).to(device)
    record: dict[str, Any] = {"parameters": sum(p.numel() for p in model.parameters()), "pretraining": None}
    if arm == PRETRAINED:
        record["pretraining"] = fit(
            model, corpus.gaps, corpus.validation, steps=sizes.pretraining, seed=seed, sizes=sizes, device=device
        )
    chosen = np.random.default_rng(seed).permutation(len(corpus.train))
    record["fine"] = []
    for count in few:
        pairs = [corpus.train[i] for i in chosen[:count]]
        steps = sizes.steps + (sizes.pretraining if arm == LONGER else 0)
        tried = []
        for rate in sizes.tuning:
            tuned, given = copy.deepcopy(model), replace(sizes, rate=rate)
            how = fit(
                tuned, pairs, corpus.validation, steps=steps, seed=seed + 1000, sizes=given, device=device, best=True
            )
            tried.append((min(point["validation"] for point in how["curve"]), rate, how, tuned))
        validation, rate, entry, tuned = min(tried, key=lambda one: one[:2])
        predictions = summarise(tuned, corpus, sizes, device)
        scores = mean_rouge(predictions, [pair.summary for pair in corpus.texts])
        entry["copied"] = copied(predictions, [pair.text for pair in corpus.texts])
        entry |= {"few": count, "rate": rate, "validation": validation, "rouge": list(scores)}
        entry |= {"test_loss": loss_on(tuned, corpus.test, sizes.batch, device), "written": predictions[:20]}
        entry["validation by rate"] = {str(one[1]): one[0] for one in tried}
        record["fine"].append(entry)
    return record


def fit(
    model: EncoderDecoder,
    pairs: list[Pair],
    validation: list[Pair],
    *,
    steps: int,
    seed: int,
    sizes: Sizes,
    device: str,
    best: bool = False,
) -> dict[str, Any]:
    """AdamW and one cycle of the rate; {"curve": [{"step", "loss", "validation"}], "best", "seconds"}.

    The rate of a matrix is `sizes.rate` times its root mean square at the start, as T5's decoder wants, whose
    embedding is larger than its other weights. Validation is the mean negative log-probability of a summary's token.

    best : leaves the model with the weights of the check that validates best, and ends before the last step where five
        checks on end were worse
    """
    optimizer = torch.optim.AdamW(groups(model, sizes.rate), betas=(0.9, 0.98))
    due = {round(steps * (i + 1) / sizes.checks) for i in range(sizes.checks)}
    curve = [{"step": 0, "validation": loss_on(model, validation, sizes.batch, device)}]
    kept, at = copy.deepcopy(model.state_dict()), 0
    losses, since = torch.empty(steps, device=device), 0  # one array: a list would leave holes in the heap
    start = time.perf_counter()
    rows = iter(tqdm(drawn(pairs, steps, sizes.batch, seed), total=steps, disable=None))

    def draw(step: int) -> list[Pair]:
        if step == 0:
            torch.manual_seed(seed)  # of dropout
        return [pairs[i] for i in next(rows)]

    def loss_of(model: nn.Module, given: list[Pair]) -> Tensor:
        loss, count = token_loss(model, given, device)
        return loss / count

    def check(_: Any, record: dict[str, Any]) -> bool:
        nonlocal kept, at, since
        step = record["step"]
        losses[step - 1] = record["loss"]
        if step not in due:
            return False
        mean, since = float(losses[since:step].mean()), step
        curve.append({"step": step, "loss": mean, "validation": loss_on(model, validation, sizes.batch, device)})
        model.train()
        if curve[-1]["validation"] <= min(point["validation"] for point in curve):
            kept, at = copy.deepcopy(model.state_dict()), step
        return best and len(curve) > 5 and at < curve[-5]["step"]

    train_by_step(model, draw, loss_of, optimizer, steps=steps, after=check, device=device, warmup=0.1)
    if best:
        model.load_state_dict(kept)
    return {"curve": curve, "best": at, "seconds": time.perf_counter() - start}


def token_loss(model: EncoderDecoder, pairs: Sequence[Pair], device: str) -> tuple[Tensor, int]:
    """(−Σ log p of the targets' tokens, their number)."""
    source, source_mask = stacked([source for source, _ in pairs], device)
    target, target_mask = stacked([target for _, target in pairs], device)
    logits = model(source, model.shifted(target), source_mask, target_mask)
    return F.cross_entropy(logits[target_mask], target[target_mask], reduction="sum"), int(target_mask.sum())


@torch.no_grad()
def loss_on(model: EncoderDecoder, pairs: Sequence[Pair], batch: int, device: str) -> float:
    """Mean negative log-probability of a target token, nats."""
    model.eval()
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]))
    total, tokens = 0.0, 0
    for i in range(0, len(order), 4 * batch):
        loss, count = token_loss(model, [pairs[j] for j in order[i : i + 4 * batch]], device)
        total, tokens = total + float(loss), tokens + count
    return total / tokens


def summarise(model: EncoderDecoder, corpus: Corpus, sizes: Sizes, device: str) -> list[str]:
    """What the model writes for the test sources, in their order."""
    order = sorted(range(len(corpus.test)), key=lambda i: len(corpus.test[i][0]))
    said = [""] * len(order)
    for i in range(0, len(order), 4 * sizes.batch):
        rows = order[i : i + 4 * sizes.batch]
        source, mask = stacked([corpus.test[j][0] for j in rows], device)
        made = model.generate(source, tokens=sizes.target_length, source_mask=mask, beams=sizes.beams).tokens
        for j, tokens in zip(rows, made.reshape(len(rows), -1, sizes.target_length)[:, 0].tolist()):
            said[j] = corpus.written(tokens)
    return said


def groups(model: nn.Module, rate: float) -> list[dict[str, Any]]:
    """One group for all parameters of about one size, to two digits; vectors have a tenth of the rate, and no decay."""
    groups: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        matrix = parameter.ndim > 1
        size = max(1e-3, float(parameter.detach().square().mean().sqrt())) if matrix else 0.1
        groups.setdefault((matrix, float(f"{size:.1e}")), []).append(parameter)
    return [
        {"params": parameters, "lr": rate * size, "weight_decay": 0.01 if matrix else 0.0}
        for (matrix, size), parameters in groups.items()
    ]


def drawn(pairs: list[Pair], steps: int, batch: int, seed: int) -> Iterator[list[int]]:
    """Rows of each step: epochs in a drawn order, in which batches of eight steps are sorted by length."""
    random = np.random.default_rng([seed, 2])
    batch = min(batch, len(pairs))
    order: list[int] = []
    waiting: list[list[int]] = []
    for _ in range(steps):
        if not waiting:
            while len(order) < 8 * batch:
                order += random.permutation(len(pairs)).tolist()
            some, order = sorted(order[: 8 * batch], key=lambda i: len(pairs[i][0])), order[8 * batch :]
            waiting = [some[i : i + batch] for i in range(0, 8 * batch, batch)]
            random.shuffle(waiting)
        yield waiting.pop()


def stacked(rows: Sequence[np.ndarray], device: str) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(row) for row in rows])
    tokens = torch.zeros(len(rows), int(lengths.max()), dtype=torch.int64)
    for i, row in enumerate(rows):
        tokens[i, : len(row)] = torch.from_numpy(row)
    mask = torch.arange(tokens.shape[1]) < lengths[:, None]
    return tokens.to(device), mask.to(device)
