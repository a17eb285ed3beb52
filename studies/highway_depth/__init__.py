"""How many sweeps of Highway-BP a deep residual network and a language model need, and what each sweep costs.

    python -m studies.highway_depth
    python -m studies.highway_depth --preset medium

Convolutional residual networks in the two forms of the paper (arXiv:2501.17086), h + g(h) and ReLU(h + g(h)), learn
the pressure of Darcy flow from the coefficient; a pre-norm transformer, and a residual network of causal
convolutions, learn the characters of a text. Each is trained by backpropagation, by Highway-BP with k sweeps, by the
fixed-point iteration (γ = 1: the highway term is off), and with other shares γ of the residual path counted with the
costly part. A GRU copies symbols over distractors, its layers the steps of a sequence. Every arm has the same starts,
batches and budget, and its own rate, chosen on validation data from the same grid with seeds that no verdict uses.
Memory is that of one step in a process of its own; `studies.highway_pipeline` has the time on two processes.

Of the preset "medium", the residual network of the verdicts is the one over a text. On fields, single trainings by
backpropagation from one start that differ in the order of their batches differ by 2 to 11 % in their error, with 8 and
16 channels, 16 and 24 layers, 8 to 16 nodes an axis, 200 to 600 steps, averaged weights or not; on the text by 1 %.
That, and the grid of rates whose best lies inside, was chosen with seeds 100 to 127 and 1100 to 1127 by backpropagation
alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from sciops.runs import RunFolder
from studies.highway_depth.costs import measured
from studies.highway_depth.over_time import trained_over_time
from studies.highway_depth.report import answer, claims, draw, enough, print_report, probed, summary
from studies.highway_depth.training import NETWORKS, TEXT, Arm, trained
from studies.kit.cells import code_digest, kept
from studies.kit.choices import require_known
from studies.kit.study import finished, opened, picked
from studies.kit.text_training import text_data


@dataclass(frozen=True)
class Config:
    networks: tuple[str, ...] = NETWORKS  # names in studies.highway_depth.training.NETWORKS
    cosines_alone: tuple[str, ...] = ()  # networks that are trained by backpropagation alone, for cosines
    iterations: tuple[int, ...] = (0, 2)  # sweeps k of Highway-BP
    fixed_point: tuple[int, ...] = (2,)  # k of the arms with γ = 1, without the highway term
    share_networks: tuple[str, ...] = ("resnet, pre", "transformer")  # networks of the arms with an estimated γ
    estimated: tuple[int, ...] = (1,)  # k of the arms with an estimated γ
    gammas: tuple[float, ...] = (0.5,)  # other shares γ of the residual path that are counted with J
    gamma_iterations: tuple[int, ...] = (1,)  # k of the arms with these
    gamma_networks: tuple[str, ...] = ("resnet, pre", "transformer")  # their networks
    depth: int = 12  # residual layers L of the convolutional networks, on fields and over the text
    text_depth: int = 6  # of the transformer, attention and MLP counted apart
    depths: tuple[int, ...] = ()  # further depths of the network "resnet, pre", trained by backpropagation, for cosines
    seeds: tuple[int, ...] = (10, 11, 12, 13, 14)
    """seeds of the verdicts, of initial parameters and batches, for the convolutional networks of `networks`"""
    choosing: tuple[int, ...] = (100,)  # seeds of the choice of their rate
    few_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)  # seeds of the transformer, and of networks that are for cosines alone
    few_choosing: tuple[int, ...] = (100,)  # seeds of the choice of their rates
    rates: tuple[float, ...] = (3e-3, 1e-2, 3e-2)  # peak rates of the networks on fields to choose from
    text_rates: tuple[float, ...] = (5e-3, 1e-2, 2e-2)  # of the transformer
    conv_rates: tuple[float, ...] = (7e-3, 2e-2, 6e-2)  # of the residual network over a text
    points: int = 16  # nodes per axis of the fields
    train: int = 400  # training fields
    validation: int = 100
    test: int = 200
    width: int = 8  # channels
    batch: int = 8  # fields a step
    steps: int = 60
    corpus: str = "auto"  # the text, as in studies.language_model
    length: int = 32  # characters of a window
    text_width: int = 32  # channels
    text_batch: int = 8  # windows a step
    text_steps: int = 80
    scored: int = 8192  # characters of the validation and of the test text that are scored
    time_iterations: tuple[int, ...] = (0, 2)  # sweeps k in the GRU
    time_fixed_point: tuple[int, ...] = (0,)  # k of its arms without the highway term; 0 is full truncation
    time_length: int = 8  # steps T of a sequence, the GRU's layers
    time_width: int = 16  # units
    time_batch: int = 16  # sequences a step
    time_steps: int = 100
    time_scored: int = 200  # sequences of the validation and of the test data
    time_seeds: tuple[int, ...] = (10, 11, 12, 13, 14)
    time_choosing: tuple[int, ...] = (100,)  # seeds of the choice of its rate
    time_rates: tuple[float, ...] = (1e-2, 2e-2, 4e-2)  # peak rates to choose from
    looks: int = 7  # comparisons with the true gradient through a training
    probed: tuple[int, ...] = (0, 1, 2, 4, 8, 16)  # k whose cosine is taken in networks trained by backpropagation
    cost_networks: tuple[str, ...] = ("resnet, pre", "transformer")  # whose memory and time are measured; none: ()
    cost_iterations: tuple[int, ...] = (0, 2)  # k there
    cost_depth: int = 24  # residual layers there
    cost_width: int = 32  # channels
    cost_batch: int = 16  # samples
    rounds: int = 3  # times that each step is timed
    output: Path = Path("runs/highway_depth")  # folder for results.json and the figures


PRESETS = {
    "quick": Config(),
    "medium": Config(
        networks=("resnet, text", "transformer", "gru"),
        cosines_alone=("resnet, pre", "resnet, post"),
        iterations=(0, 1, 2, 4, 8),
        fixed_point=(4,),
        depth=24,
        text_depth=12,
        depths=(12, 48),
        share_networks=("transformer", "resnet, text"),
        gamma_networks=("transformer",),
        seeds=tuple(range(300, 310)),
        choosing=(100, 101),
        steps=160,
        text_steps=400,
        time_iterations=(0, 1, 2, 4),
        time_fixed_point=(0, 4),
        time_length=20,
        time_width=32,
        time_batch=32,
        time_steps=600,
        time_scored=500,
        time_seeds=(300, 301, 302, 303, 304),
        time_choosing=(100, 101),
        time_rates=(5e-3, 2e-2, 8e-2),
        cost_iterations=(0, 2, 8),
        cost_batch=32,
        output=Path("runs/highway_depth_medium"),
    ),
}

_TASK = (
    "points train validation test width batch steps length text_width text_batch text_steps scored looks probed seeds "
    "choosing few_seeds few_choosing rates text_rates conv_rates"
)
_TIME_TASK = "length width batch steps scored seeds choosing rates"


def plan(config: Config) -> list[tuple[str, int, Arm]]:
    """(network, depth, arm) of every training, the arms of the first question first."""
    layers = {"transformer": config.text_depth, "gru": config.time_length}
    shapes = [(name, layers.get(name, config.depth)) for name in config.networks]
    main = {False: (config.iterations, config.fixed_point), True: (config.time_iterations, config.time_fixed_point)}
    found = [
        (*shape, arm)
        for shape in shapes
        for sweeps, fixed in [main[shape[0] == "gru"]]
        for arm in (Arm(None), *map(Arm, sweeps), *(Arm(k, 1.0) for k in fixed))
    ]
    found += [(name, config.depth, Arm(None)) for name in config.cosines_alone]
    found += [(NETWORKS[0], depth, Arm(None)) for depth in config.depths]
    shares: list[tuple[float | str, tuple[int, ...], tuple[str, ...]]] = [
        ("estimated", config.estimated, config.share_networks),
        *((gamma, config.gamma_iterations, config.gamma_networks) for gamma in config.gammas),
    ]
    return found + [
        (*shape, Arm(k, gamma))
        for gamma, sweeps, names in shares
        for shape in shapes
        if shape[0] in names
        for k in sweeps
    ]


def run(config: Config) -> dict[str, Any]:
    """Trains, measures, prints; writes results.json and the figures, and returns the results.

    Raises ValueError for networks that are none of the study's; FileNotFoundError where there is no text.
    """
    require_known("--networks", config.networks, NETWORKS, some=True)
    require_known("--cosines-alone", config.cosines_alone, NETWORKS[:2])
    require_known("--share-networks", config.share_networks, NETWORKS[:4])
    require_known("--gamma-networks", config.gamma_networks, NETWORKS[:4])
    require_known("--cost-networks", config.cost_networks, NETWORKS[:3])
    seeds = sorted({*config.seeds, *config.few_seeds, *config.time_seeds})
    folder = opened(config, seeds=seeds, methods=["highway"])
    text = {}
    if set(TEXT) & set(config.networks):
        data = text_data(config.corpus, kind="characters", size=256)
        text = {"corpus": data.name, "text": data.checksum}
    runs = []
    for network, depth, arm in tqdm(plan(config), desc="trainings", unit="arm", disable=None):
        spec = {"network": network, "depth": depth, "iterations": arm.iterations, "gamma": arm.gamma}
        if network == "gru":  # its task is that of another study
            own = picked(config, _TIME_TASK, "time_") | picked(config, "looks probed")
            made_by = {**spec, **own, "task": code_digest("studies.kit.through_time")}
            make = partial(trained_over_time, arm, config)
        else:
            made_by = {**spec, **picked(config, _TASK), **(text if network in TEXT else {})}
            make = partial(trained, network, depth, arm, config)
        record = kept(folder.path / "cells", f"{network}-{depth}-{arm.name}", made_by, make)
        runs.append({**spec, "arm": arm.name, **{key: record[key] for key in record if key not in ("name", "spec")}})
    made_by = {"networks": config.cost_networks, "iterations": config.cost_iterations, "rounds": config.rounds}
    made_by |= picked(config, "depth width batch", "cost_")
    record = kept(folder.path / "cells", "costs", made_by, lambda: {"rows": measured(**made_by)})
    return reported({"text": text.get("corpus"), "runs": runs, "costs": record["rows"]}, config, folder)


def reported(results: dict[str, Any], config: Config, folder: RunFolder) -> dict[str, Any]:
    """The results of the trainings and measurements with what follows from them, written, drawn and printed."""
    results["summary"] = summary(results["runs"])
    results["probes"] = probed(results["runs"])
    results["enough"] = enough(results["summary"])
    results["claims"] = claims(results)
    return finished(folder, results, draw, print_report, config, answer=answer)
