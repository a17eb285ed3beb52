"""Small language models on a real text, with one mixer or another: perplexity, bits per byte, and what they write.

    python -m studies.language_model
    python -m studies.language_model --corpus book.txt --arms attention "polynomial + local" --text-prompt "Once upon"
    python -m studies.language_model --preset full --output runs/language_model

The text is cut in three, byte pairs are trained on the first part, every model on the same windows of it. Perplexity a
token depends on the tokenizer; bits per byte of the test text do not, so that runs with other vocabularies (or
``--kind characters``, where no character is rare) can be compared. Models have equal numbers of parameters by the
hidden widths of their blocks. Each lies with its tokenizer in the run's folder, for `load_model` and `load_tokenizer`;
run the same command again to resume.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from sciops.evaluation import spread
from sciops.models import LanguageModel, generate, load_model, save_model
from sciops.plotting import series
from sciops.runs import RunFolder
from studies.kit.answers import listed, sentence
from studies.kit.cells import cell_name, kept
from studies.kit.figures import panels
from studies.kit.mixers.arms import ARMS, Arm, chosen_arms, matched_ratio, parameters_of
from studies.kit.study import finished, opened
from studies.kit.tables import grouped, print_table
from studies.kit.text_training import TextData, text_data, train_language


@dataclass(frozen=True)
class Config:
    arms: tuple[str, ...] = ("attention", "ChaCAL", "polynomial + local")  # mixers, by their names in studies.mixer_zoo
    corpus: str = "auto"
    """a name in sciops.datasets.text.CORPORA, a text file or a folder of them; auto: the first corpus that is there"""
    kind: Literal["bpe", "characters"] = "bpe"  # tokens: byte pairs, which need the extra text, or characters
    vocabulary: int = 1024  # most tokens
    width: int = 96  # channels inside
    depth: int = 2  # blocks
    local: int = 4  # taps of the short causal convolution of every block; 0 leaves it out
    dropout: float = 0.0  # share of the entries of every branch that training drops
    context: int = 128  # tokens of a window
    steps: int = 300  # steps of each training
    batch: int = 8  # windows a step
    rate: float = 3e-3  # largest learning rate
    seeds: int = 1  # trainings of each arm; the first one is saved
    scored: int = 20_000  # tokens of the test text that are scored
    text_prompt: str = ""  # text that the samples continue; none: the beginning of the test text
    sampled: int = 60  # tokens of a sample
    temperature: float = 0.8  # of the samples
    top_p: float = 0.95  # of the samples
    device: str = "auto"  # a CUDA device where there is one
    output: Path = Path("runs/language_model")  # folder for models, results.json and the figure


PRESETS = {
    "quick": Config(),
    "medium": Config(steps=1000, seeds=2, depth=3, width=128, output=Path("runs/language_model_medium")),
    "full": Config(
        arms=tuple(ARMS),
        vocabulary=4096,
        width=256,
        depth=6,
        dropout=0.1,
        context=512,
        steps=10_000,
        batch=32,
        rate=1e-3,
        seeds=5,
        scored=200_000,
        output=Path("runs/language_model_full"),
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Trains, scores, samples, prints; writes the models, results.json and figures/language_model.png.

    Raises ValueError for an unknown arm, FileNotFoundError for a text that is not there; RuntimeError, after writing,
    where a model is no better than the frequencies of tokens.
    """
    arms = chosen_arms(config.arms)
    folder = opened(config, seeds=range(config.seeds))
    data = text_data(config.corpus, kind=config.kind, size=config.vocabulary, folder=folder.path)
    print(
        f"{data.name}: {len(data.train):,} tokens to train on, {len(data.validation):,} to validate, "
        f"{len(data.test):,} to test, of {len(data.tokenizer)} kinds"
    )
    runs = [trained(name, arms[name], seed, data, config, folder) for name in arms for seed in range(config.seeds)]
    prompt = config.text_prompt or data.tokenizer.decode(data.test[:12])
    samples = {r["arm"]: sample(folder.path / r["model"], data, prompt, config) for r in runs if r["seed"] == 0}
    results = {"corpus": data.name, "rows": summary(runs), "runs": runs, "prompt": prompt, "samples": samples}
    worse = [r["arm"] for r in runs if not r["perplexity"] < r["unigram_perplexity"]]
    wrong = f"no better than the frequencies of tokens: {', '.join(dict.fromkeys(worse))}" if worse else ""
    return finished(folder, results, _draw, _print, answer=answer, picture="language_model.png", wrong=wrong)


def answer(results: dict[str, Any]) -> str:
    """The arms by their bits per byte, the best first."""
    rows = sorted(results["rows"], key=lambda row: row["bits_per_byte"])
    scores = listed(f"{row['arm']} {row['bits_per_byte']:.3f} (perplexity {row['perplexity']:.1f})" for row in rows)
    alone = rows[0]["unigram_perplexity"]
    return sentence(f"bits per byte of {results['corpus']}: {scores}", f"frequencies alone have perplexity {alone:.1f}")


def trained(name: str, arm: Arm, seed: int, data: TextData, config: Config, folder: RunFolder) -> dict[str, Any]:
    """The record of one training, read back where it has ended with the same options on the same text."""
    options = model_options(arm, config, len(data.tokenizer))
    training = {key: getattr(config, key) for key in ("context", "steps", "batch", "rate", "scored")}
    text = {"corpus": data.name, "text": data.checksum, "kind": config.kind, "vocabulary": config.vocabulary}
    spec = {"arm": name, "seed": seed, **text, **options, **training}
    cell = cell_name(f"{name}-seed{seed}", spec)

    def train() -> dict[str, Any]:
        where = folder.path / "models" / cell
        model, found = train_language(
            data, options, seed=seed, folder=where, device=config.device, progress=True, **training
        )
        save_model(model.cpu(), where / "model", extra={"arm": name, "perplexity": found["perplexity"]})
        data.tokenizer.save(where / "model")
        return {"arm": name, "seed": seed, **found, "model": f"models/{cell}/model"}

    return kept(folder.path / "records", f"{name}-seed{seed}", spec, train)


def model_options(arm: Arm, config: Config, symbols: int) -> dict[str, Any]:
    """Options of the arm's `LanguageModel`, with the hidden width that gives it attention's parameters."""
    size = dict(width=config.width, depth=config.depth, local=config.local, dropout=config.dropout)

    def made(of: Arm, ratio: float) -> LanguageModel:
        return LanguageModel(symbols, mixer=of.mixer, mixer_options=of.tokens, mlp_ratio=ratio, **size)

    wanted = parameters_of(made(ARMS["attention"], 2.0))
    ratio = matched_ratio(lambda r: made(arm, r), wanted, width=config.width, depth=config.depth)
    return dict(size, mixer=arm.mixer, mixer_options=dict(arm.tokens), mlp_ratio=ratio)


def sample(where: Path, data: TextData, prompt: str, config: Config) -> str:
    """The text with which the saved model of the first seed continues the prompt."""
    model = load_model(where)
    tokens = [data.tokenizer.encode(prompt).tolist() or [data.tokenizer.end]]
    how = {"temperature": config.temperature, "top_p": config.top_p if config.temperature else None}
    how |= {"stop": data.tokenizer.end, "generator": torch.Generator().manual_seed(0)}
    found = generate(model, tokens, tokens=config.sampled, **how)
    return data.tokenizer.decode(found.tokens[0, : int(found.lengths[0])])


def summary(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row an arm: means over its seeds, and the standard deviation of the bits per byte."""
    rows = []
    for arm, mine in grouped(runs, "arm").items():
        keys = ("perplexity", "character_perplexity", "bits_per_byte", "unigram_perplexity", "parameters", "seconds")
        row = {key: float(np.mean([r[key] for r in mine])) for key in keys}
        deviation = spread(r["bits_per_byte"] for r in mine).deviation
        rows.append({"arm": arm, "seeds": len(mine), "spread": deviation, **row})
    return rows


def _print(results: Mapping[str, Any]) -> None:
    runs = grouped(results["runs"], "arm")
    scores = {arm: spread(r["bits_per_byte"] for r in own) for arm, own in runs.items()}
    print_table(
        [*results["rows"], {"arm": "token frequencies", "perplexity": results["rows"][0]["unigram_perplexity"]}],
        "=arm; perplexity:.2f; a character=character_perplexity:.3f",
        ("bits per byte", lambda row: f"{scores[row['arm']]:.4f}" if row["arm"] in scores else None),
        "parameters:,.0f; seconds:.1f",
        title="",
    )
    print(f"\nafter {results['prompt']!r}:")
    for arm, text in results["samples"].items():
        print(f"  {arm}: {text!r}")


def _draw(results: Mapping[str, Any], path: Path) -> None:
    """Bits per byte against the time of training, a point a training."""
    caption = "Bits per byte of the test text against the time of training, a point a training."
    with panels(path, 1, 1, width=3.6, caption=caption) as (axis,):
        for (arm, runs), style in zip(grouped(results["runs"], "arm").items(), series()):
            seconds, bits = ([r[key] for r in runs] for key in ("seconds", "bits_per_byte"))
            axis.plot(seconds, bits, label=arm, **(style | {"linestyle": ""}))
        axis.set(xlabel="training time, s", ylabel="bits per byte of the test text")
        axis.legend()


if __name__ == "__main__":
    from sciops.commands.command_line import command

    command(run, PRESETS)
