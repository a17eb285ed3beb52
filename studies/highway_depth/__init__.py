"""How many sweeps of Highway-BP a deep residual network and a language model need, and what each sweep costs.

    python -m studies.highway_depth
    python -m studies.highway_depth --preset medium

Convolutional residual networks in the two forms of the paper (arXiv:2501.17086), h + g(h) and ReLU(h + g(h)), learn the
pressure of Darcy flow from the coefficient; a pre-norm transformer learns the characters of a text. Each is trained by
backpropagation, by Highway-BP with k sweeps, by the fixed-point iteration (γ = 1: the highway term is off), and with
other shares γ of the residual path counted with the costly part. Every arm has the same starts, batches and budget, and
its own rate, chosen on validation data from the same grid with a seed that no verdict uses. Memory is that of one step
in a process of its own; `studies.highway_pipeline` has the time on two processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from sciops.runs import RunFolder
from studies.highway_depth.costs import measured
from studies.highway_depth.report import answer, claims, draw, enough, print_report, probed, summary
from studies.highway_depth.training import NETWORKS, Arm, trained
from studies.kit.cells import kept
from studies.kit.choices import require_known
from studies.kit.study import finished, opened, picked
from studies.kit.text_training import text_data


@dataclass(frozen=True)
class Config:
    networks: tuple[str, ...] = NETWORKS  # names in studies.highway_depth.training.NETWORKS
    cosines_alone: tuple[str, ...] = ()  # networks that are trained by backpropagation alone, for cosines
    iterations: tuple[int, ...] = (0, 2)  # sweeps k of Highway-BP
    fixed_point: tuple[int, ...] = (2,)  # k of the arms with γ = 1, without the highway term
    share_networks: tuple[str, ...] = ("resnet, pre", "transformer")  # networks of the arms with other shares γ
    estimated: tuple[int, ...] = (1,)  # k of the arms with an estimated γ
    gammas: tuple[float, ...] = (0.5,)  # other shares γ of the residual path that are counted with J
    gamma_iterations: tuple[int, ...] = (1,)  # k of the arms with these
    depth: int = 12  # residual layers L of the convolutional networks
    text_depth: int = 6  # of the transformer, attention and MLP counted apart
    depths: tuple[int, ...] = ()  # further depths of the network "resnet, pre", trained by backpropagation, for cosines
    seeds: tuple[int, ...] = (10, 11, 12, 13, 14)
    """seeds of the verdicts, of initial parameters and batches, for the convolutional networks"""
    choosing: tuple[int, ...] = (100,)  # seeds of the choice of their rate
    few_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)  # seeds of the transformer, and of networks that are for cosines alone
    few_choosing: tuple[int, ...] = (100,)  # seeds of the choice of their rates
    rates: tuple[float, ...] = (3e-3, 1e-2, 3e-2)  # peak rates of the convolutional networks to choose from
    text_rates: tuple[float, ...] = (5e-3, 1e-2, 2e-2)  # of the transformer
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
        networks=("resnet, pre", "transformer"),
        cosines_alone=("resnet, post",),
        iterations=(0, 1, 2, 4, 8),
        fixed_point=(4,),
        depth=24,
        text_depth=12,
        depths=(12, 48),
        seeds=tuple(range(10, 25)),  # errors of the short trainings on fields scatter by 6 %
        choosing=(100, 101, 102),
        steps=160,
        text_steps=400,
        cost_iterations=(0, 2, 8),
        cost_batch=32,
        output=Path("runs/highway_depth_medium"),
    ),
}

_TASK = (
    "points train validation test width batch steps length text_width text_batch text_steps scored looks probed seeds "
    "choosing few_seeds few_choosing rates text_rates"
)


def plan(config: Config) -> list[tuple[str, int, Arm]]:
    """(network, depth, arm) of every training, the arms of the first question first."""
    shapes = [(name, config.text_depth if name == "transformer" else config.depth) for name in config.networks]
    groups = [
        [Arm(None), *map(Arm, config.iterations)],
        [Arm(k, 1.0) for k in config.fixed_point],
        [Arm(k, "estimated") for k in config.estimated],
        *([Arm(k, gamma) for k in config.gamma_iterations] for gamma in config.gammas),
    ]
    found = [(*shape, arm) for group in groups[:2] for shape in shapes for arm in group]
    found += [(name, config.depth, Arm(None)) for name in config.cosines_alone]
    found += [(NETWORKS[0], depth, Arm(None)) for depth in config.depths]
    shapes = [shape for shape in shapes if shape[0] in config.share_networks]
    return found + [(*shape, arm) for group in groups[2:] for shape in shapes for arm in group]


def run(config: Config) -> dict[str, Any]:
    """Trains, measures, prints; writes results.json and the figures, and returns the results.

    Raises ValueError for networks that are none of the study's; FileNotFoundError where there is no text.
    """
    require_known("--networks", config.networks, NETWORKS, some=True)
    require_known("--cosines-alone", config.cosines_alone, NETWORKS[:2])
    require_known("--share-networks", config.share_networks, NETWORKS)
    require_known("--cost-networks", config.cost_networks, NETWORKS)
    folder = opened(config, seeds=sorted({*config.seeds, *config.few_seeds}), methods=["highway"])
    text = {}
    if "transformer" in config.networks:
        data = text_data(config.corpus, kind="characters", size=256)
        text = {"corpus": data.name, "text": data.checksum}
    runs = []
    for network, depth, arm in tqdm(plan(config), desc="trainings", unit="arm", disable=None):
        spec = {"network": network, "depth": depth, "iterations": arm.iterations, "gamma": arm.gamma}
        made_by = {**spec, **picked(config, _TASK), **(text if network == NETWORKS[2] else {})}
        record = kept(
            folder.path / "cells",
            f"{network}-{depth}-{arm.name}",
            made_by,
            lambda of=(network, depth, arm): trained(*of, config),
        )
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
