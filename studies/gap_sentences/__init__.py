"""Does pre-training on gap sentences help a summariser that has seen few summaries? Real texts, ROUGE, three seeds.

    python -m studies.gap_sentences                           # some hundred steps
    python -m studies.gap_sentences --preset medium           # some thousand, one encoder
    python -m studies.gap_sentences --preset encoders         # three encoders, which write, and choose sentences
    python -m studies.gap_sentences --preset query            # encoders choose for a query, short and long documents
    python -m studies.gap_sentences --preset full             # all of it, wider, on a GPU with --device cuda

Texts are long package descriptions and the bodies of docstrings that are on the machine, summaries their first lines.
An encoder–decoder with a state-space encoder (LOCOST, arXiv:2401.17919) learns to write the principal sentences of
training texts, which are masked in its source (PEGASUS, arXiv:1912.08777), then few summaries; or these alone, for as
many steps, or for as many as both together. Every arm has the weights and the rate of fine-tuning that validate best,
of the same choices. The first words of the text are the baseline that needs no training. The same encoders also choose
a sentence of the text instead of writing, which says where a summary is lost. They choose for a query, too, the
sentences of one of several texts that lie sentence by sentence in a document (query-focused extraction, as of meetings
in QMSum), which takes tokens that are far away. Then the cost of a step with a state-space encoder and one of attention
of equal parameters, by the length of the source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from sciops.runs import RunFolder, file_hash
from studies.gap_sentences.cost import costs
from studies.gap_sentences.data import corpus_of, lead_scores, pairs_of
from studies.gap_sentences.extraction import baselines, choosings
from studies.gap_sentences.query import ABLATIONS
from studies.gap_sentences.querying import Plan, query_summary, queryings
from studies.gap_sentences.report import answer, choosing_summary, draw, print_report, summary
from studies.gap_sentences.training import ARMS, ENCODERS, Sizes, train_once
from studies.kit.cells import kept
from studies.kit.choices import require_known
from studies.kit.study import finished, picked


@dataclass(frozen=True)
class Config:
    parts: tuple[str, ...] = ("writing", "choosing")
    """writing: trainings of encoder–decoders; choosing: of the encoders alone, which choose sentences; query: the same,
    of documents of several texts, for a query"""
    sources: tuple[str, ...] = ("debian", "python", "numpy")
    """"debian", its package descriptions; "python", the standard library; or an installed package, for docstrings"""
    symbols: int = 2048  # of the byte-level tokenizer, the model's own two included
    source_length: int = 128  # tokens of a source; the rest is cut off
    target_length: int = 40  # tokens of a summary or of gap sentences at most
    ratio: float = 0.3  # share of the sentences that are gaps
    kept: float = 0.2  # share of the gap sentences that stay in the source, so that copying is learned
    held_out: int = 150  # texts for validation, and for testing, at most
    few: tuple[int, ...] = (300,)  # summaries to fine-tune on
    arms: tuple[str, ...] = ARMS[:2]
    """what comes before them: gap sentences; nothing ("from scratch"); nothing, and as many steps more on them"""
    encoders: tuple[str, ...] = ("state_space",)
    """mixers of the encoder: state_space, self_attention, sparse_attention, none"""
    window: int = 32  # of sparse attention: tokens on each side that a token reads, beside means of 16 tokens
    choosers: tuple[str, ...] = ("state_space", "none")
    """the same, of encoders that choose sentences"""
    choosing_steps: int = 40  # of training there
    choosing_rates: tuple[float, ...] = (0.02, 0.1)  # of which each encoder has that which validates best, in a trial
    queriers: tuple[str, ...] = ("state_space", "sparse_attention", "none")
    """the same, of encoders that choose for a query; besides, state_space_no_gate and state_space_short_kernel"""
    query_texts: tuple[int, int] = (3, 13)  # of a short document, and of a long one
    query_steps: tuple[int, int, int] = (100, 60, 30)  # on documents of two texts, on short, on long ones
    query_batch: tuple[int, int, int] = (16, 8, 3)  # documents of a step there
    query_rates: tuple[float, ...] = (0.01,)  # of which each encoder has that which validates best, in a trial
    query_documents: tuple[int, int] = (60, 100)  # for validation and for testing
    word_vectors: int = 32  # numbers of the fixed vector of a token
    width: int = 64  # channels
    depth: int = 2  # blocks of the encoder, and of the decoder
    state: int = 16  # real numbers a channel in a state space; width/4 gives the parameters of attention
    heads: int = 4  # of attention
    dropout: float = 0.1  # in training
    batch: int = 8  # pairs a step
    rate: float = 0.05  # peak rate of pre-training, times the root mean square of a matrix at the start
    tuning: tuple[float, ...] = (0.05,)  # such rates of fine-tuning, of which the one that validates best is judged
    pretraining: int = 320  # steps on gap sentences
    steps: int = 100  # of fine-tuning
    checks: int = 5  # validations of a training
    beams: int = 1  # of the search for a summary; 1 takes the likeliest token
    seeds: tuple[int, ...] = (0, 1, 2)  # of weights, batches, dropout, and of which summaries are seen
    lengths: tuple[int, ...] = (128, 512, 2048)  # tokens of the sources whose cost is measured; none: no costs
    rounds: int = 5  # timings of each
    device: str = "cpu"  # where models are trained; costs are measured on the CPU
    threads: int = 1  # of torch
    output: Path = Path("runs/gap_sentences")  # folder for results.json, trainings and figures


_PACKAGES = ("debian", "python", "numpy", "scipy", "matplotlib", "xarray", "torch")

PRESETS = {
    "quick": Config(),
    "medium": Config(
        sources=_PACKAGES[:6],
        few=(500,),
        arms=ARMS,
        batch=16,
        tuning=(0.02, 0.05),
        pretraining=2500,
        steps=250,
        checks=12,
        held_out=300,
        lengths=(128, 512, 2048, 8192),
        output=Path("runs/gap_sentences_medium"),
    ),
    "encoders": Config(
        sources=_PACKAGES[:6],
        source_length=256,
        held_out=300,
        few=(1000,),
        arms=ARMS[:1],
        encoders=ENCODERS,
        choosers=(*ENCODERS, "none"),
        choosing_steps=100,
        choosing_rates=(0.05, 0.2),
        seeds=(0, 1, 2, 3, 4),
        lengths=(),
        output=Path("runs/gap_sentences_encoders"),
    ),
    "query": Config(
        parts=("query",),
        sources=_PACKAGES[:6],
        held_out=1000,
        queriers=(*ENCODERS, "none", *ABLATIONS),
        query_steps=(180, 120, 60),
        query_rates=(0.0025, 0.005, 0.01, 0.02, 0.04),
        query_documents=(150, 250),
        seeds=(0, 1, 2, 3, 4),
        lengths=(),
        output=Path("runs/gap_sentences_query"),
    ),
    "full": Config(
        parts=("writing", "choosing", "query"),
        sources=_PACKAGES,
        symbols=8192,
        source_length=512,
        target_length=64,
        held_out=1000,
        few=(100, 300, 1000, 3000),
        arms=ARMS,
        encoders=ENCODERS,
        choosers=(*ENCODERS, "none"),
        queriers=(*ENCODERS, "none", *ABLATIONS),
        query_steps=(2000, 1500, 1000),
        query_batch=(32, 16, 8),
        query_rates=(0.0025, 0.005, 0.01, 0.02),
        query_documents=(150, 250),
        choosing_steps=2000,
        choosing_rates=(0.02, 0.05, 0.1),
        tuning=(0.01, 0.02, 0.05),
        width=256,
        state=64,
        depth=4,
        batch=64,
        pretraining=20_000,
        steps=1500,
        checks=30,
        beams=4,
        seeds=(0, 1, 2, 3, 4),
        lengths=(128, 512, 2048, 8192, 32_768),
        output=Path("runs/gap_sentences_full"),
    ),
}


def run(config: Config) -> dict[str, Any]:
    """Trains, prints the tables and some summaries, writes results.json and the figures; returns the results.

    Trainings are kept in the folder and read back. Raises ValueError for unknown arms, encoders and sources, for
    sources other than those the folder has read, and for more summaries than there are.
    """
    _check(config)
    torch.set_num_threads(config.threads)
    folder = RunFolder(config.output)
    path = pairs_of(config.sources, folder.path / "pairs.jsonl")
    folder.describe(
        config, data=path, seeds=config.seeds, methods=["encoder_decoder", "state_space", "gap_sentences", "adamw"]
    )
    lengths = config.source_length, config.target_length
    corpus = corpus_of(path, config.symbols, *lengths, **picked(config, "ratio kept held_out"))
    if max(config.few) > len(corpus.train):
        raise ValueError(f"--few {max(config.few)}: there are {len(corpus.train)} summaries in the training texts")
    sizes = Sizes(**picked(config, " ".join(field.name for field in fields(Sizes))))
    data = {"pairs": file_hash(path), **picked(config, "source_length symbols ratio kept held_out")}
    runs = []
    writers = config.encoders if "writing" in config.parts else ()
    cases = [(encoder, arm, seed) for seed in config.seeds for encoder in writers for arm in config.arms]
    for encoder, arm, seed in tqdm(cases, unit="training", disable=None):
        spec = {"arm": arm, "encoder": encoder, "few": config.few, "seed": seed, "sizes": sizes, "data": data}
        spec["device"] = config.device
        make = partial(train_once, corpus, arm, encoder, config.few, seed, sizes, config.device)
        runs.append(kept(folder.path / "trainings", f"{encoder}-{arm}-{seed}", spec, make))
    results: dict[str, Any] = {"corpus": corpus.counts, "lead": lead_scores(corpus), "runs": runs}
    results["summary"] = summary(runs)
    results["baselines"] = baselines(corpus, config.source_length) if config.parts != ("query",) else {}
    results["choosing"] = []

    def keep(name: str, made_by: dict[str, Any], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        return kept(folder.path / "trainings", name, made_by | {"data": data}, make)

    if "choosing" in config.parts:
        how = picked(config, "seeds") | {"rates": config.choosing_rates, "length": config.source_length}
        how |= {"steps": config.choosing_steps, "sizes": sizes, "keep": keep}
        results["choosing"] = choosings(corpus, config.choosers, **how)
    results["choosing summary"] = choosing_summary(results["choosing"], results["baselines"])
    results["query"] = {}
    if "query" in config.parts:
        of_plan = config.query_texts, config.query_steps, config.query_batch, *config.query_documents
        how = picked(config, "seeds device") | {"rates": config.query_rates, "sizes": sizes, "keep": keep}
        found = queryings(corpus, config.queriers, plan=Plan(*of_plan, config.word_vectors), **how)
        results["query"] = found | {"summary": query_summary(found)}
    results["costs"] = []
    if config.lengths and "writing" in config.parts:
        spec = {"sizes": sizes, **picked(config, "lengths symbols rounds threads")}
        how = picked(config, "symbols rounds")
        make = lambda: {"rows": costs(("state_space", "self_attention"), config.lengths, sizes, **how)}  # noqa: E731
        results["costs"] = kept(folder.path / "trainings", "costs", spec, make)["rows"]
    results["examples"] = [
        {"group": text.group, "text": text.text[:400], "reference": text.summary} for text in corpus.texts[:20]
    ]
    return finished(folder, results, draw, print_report, answer=answer)


def _check(config: Config) -> None:
    known = {"parts": ("writing", "choosing", "query"), "arms": ARMS, "encoders": (*ENCODERS, "none")}
    known |= {"choosers": known["encoders"], "queriers": (*known["encoders"], *ABLATIONS)}
    for name, names in known.items():
        require_known(f"--{name}", getattr(config, name), names, some=True)
    if not (config.few and config.seeds and config.sources):
        raise ValueError("expected at least one of each: --few, --seeds, --sources")
    if not config.query_rates or min(*config.query_texts, *config.query_steps, *config.query_batch) < 1:
        raise ValueError("expected at least one of --query-rates, and numbers of texts, steps and batches from 1 on")
