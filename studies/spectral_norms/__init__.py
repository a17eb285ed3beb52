"""Whether the brackets of spectral norms hold, and what they cost, in one run.

    python -m studies.spectral_norms
    python -m studies.spectral_norms --preset full --output runs/spectral_norms

Random maps of every kind (dense, convolutions of every padding, Fourier layers; float32 and float64, real and complex)
are held against the largest singular value of their dense matrix in float64: one outside its bracket ends the run with
an error after the results are written. Then estimators side by side: error against time, how often each falls below the
truth, Gram iteration where it is slowest, bounds for zero padding over resolutions, and the automatic choice against
the best method in hindsight. Bounds of other papers are computed for the same convolutions, Gaussian and trained ones.
Small 1-Lipschitz classifiers with rescaled and with orthogonal layers are compared by certified accuracy. Everything
runs on one thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from tqdm.auto import tqdm

from sciops.lipschitz import kernel_gram_bound, power_iteration, spectral_norm
from sciops.lipschitz.norms.convolution import bridge_factor
from sciops.lipschitz.norms.symbols import torus_norm
from sciops.plotting import LINES, series
from studies.kit.answers import extent, listed, met, sentence
from studies.kit.figures import panels, ticks
from studies.kit.study import finished, opened
from studies.kit.tables import grouped, print_table
from studies.kit.timing import print_targets, target, threads
from studies.spectral_norms.cases import check_cases
from studies.spectral_norms.comparison import PADDINGS, broken, compare, layers, summary
from studies.spectral_norms.comparison_report import draw_comparison, print_comparison
from studies.spectral_norms.kernels import KINDS
from studies.spectral_norms.networks import compare_networks, draw_networks, print_networks
from studies.spectral_norms.speed import automatic_choice, error_against_time, orthogonal_steps, shares_below


@dataclass(frozen=True)
class Config:
    cases: int = 12_000  # random maps, of all kinds together
    problems: tuple[str, ...] = ("dense 128", "dense 512", "convolution 32 32", "Fourier 32 288")
    """where error is set against time: dense n, orthogonal n, convolution channels n, Fourier channels modes"""
    choices: tuple[str, ...] = (
        "dense 8",
        "dense 32",
        "dense 64",
        "dense 128",
        "dense 256",
        "dense 512",
        "orthogonal 256",
        "easy dense 256",
        "easy dense 512",
        "Fourier 4 64",
        "Fourier 16 288",
        "Fourier 32 288",
        "convolution 8 16",
        "convolution 32 32",
    )
    """where the automatic choice is set against each method; "easy": one singular value stands out"""
    seeds: int = 3  # instances of each problem
    rounds: int = 7  # in which the estimators take turns
    shares: int = 2000  # matrices on which under-estimates are counted
    tolerance: float = 1e-3  # of the brackets that are timed
    ladder: tuple[int, ...] = (4, 6, 8, 12, 16, 24, 32)  # points per axis for the bounds of zero padding
    ladder_channels: int = 8  # channels in and out of its kernel
    ladder_kernel: int = 3  # points of it per axis
    channels: tuple[int, ...] = (1, 4, 16, 64)  # in and out of the convolutions for which published bounds are compared
    kernels: tuple[int, ...] = (3, 5)  # points of them per axis
    sizes: tuple[int, ...] = (8, 16, 32, 64)  # points per axis of their inputs
    kinds: tuple[str, ...] = KINDS  # of kernels: Gaussian, or trained on digits
    products: float = 1e7  # multiplications of a convolution, up to which it is compared
    layer_rounds: int = 3  # in which its estimates take turns; one where a round takes long
    images: tuple[str, ...] = ("digits",)  # on which 1-Lipschitz classifiers are compared: digits, fashion-mnist
    network_seeds: int = 5  # trainings of each
    width: int = 64  # values of a hidden layer
    depth: int = 3  # hidden layers
    epochs: int = 20  # passes over the training images
    seed: int = 0  # of all that is random
    output: Path = Path("runs/spectral_norms")  # folder for results.json and the figures


PRESETS = {
    "quick": Config(),
    "full": Config(
        cases=60_000,
        problems=("dense 64", "dense 128", "dense 256", "dense 512", "convolution 32 32", "Fourier 32 288"),
        rounds=15,
        shares=20_000,
        ladder=(4, 6, 8, 12, 16, 24, 32, 48, 64),
        products=2e8,
        images=("digits", "fashion-mnist"),
    ),
}

CHOICE_TARGET = 1.2
_NOT_BOUNDS = ("torus n (circular)", "power iteration")


def run(config: Config) -> dict[str, Any]:
    """Measures, prints, writes results.json and figures/, and returns the results.

    Raises RuntimeError, after writing, for a map outside its bracket or a bound of the ladder below the truth.
    """
    if config.cases < 1 or config.seeds < 1 or config.rounds < 1:
        raise ValueError(
            f"--cases {config.cases} --seeds {config.seeds} --rounds {config.rounds}: expected at least 1 of each"
        )
    folder = opened(config, seeds=[config.seed], methods=["gram_iteration"])
    with threads(1):
        results: dict[str, Any] = {
            "cases": check_cases(
                config.cases, config.seed, lambda kinds: tqdm(kinds, desc="random maps", disable=None, leave=False)
            ),
            "speed": error_against_time(
                tqdm(config.problems, desc="error against time", disable=None, leave=False), config.seeds, config.rounds
            ),
            "shares": shares_below(config.shares, config.seed),
            "orthogonal": orthogonal_steps(64, (1, 2, 4, 6, 8, 10, 12)),
            "choice": automatic_choice(
                tqdm(config.choices, desc="automatic choice", disable=None, leave=False),
                config.rounds,
                config.tolerance,
            ),
            "ladder": ladder(config),
        }
        shapes = layers(config.channels, config.kernels, config.sizes, config.products)
        measured = compare(
            tqdm(shapes, desc="published bounds", disable=None, leave=False),
            config.kinds,
            config.layer_rounds,
            config.seed,
        )
        results["comparison"] = {"summary": summary(measured), "layers": measured}
        size = {"width": config.width, "depth": config.depth, "epochs": config.epochs}
        results["networks"] = [
            compare_networks(
                name,
                config.network_seeds,
                **size,
                progress=lambda runs: tqdm(runs, desc="1-Lipschitz classifiers", disable=None, leave=False),
            )
            for name in config.images
        ]
    results["targets"] = _targets(results)
    return finished(folder, results, _draw, _print, config, answer=answer, wrong=_outside(results))


def answer(results: dict[str, Any]) -> str:
    """Maps outside their bracket, how tight brackets are, and what the automatic choice costs."""
    cases = results["cases"]
    outside, worst = sum(row["violations"] for row in cases), max(row["worst"] for row in cases)
    return sentence(
        f"{outside or 'none'} of {sum(row['cases'] for row in cases)} random maps {'have' if outside > 1 else 'has'} a "
        f"norm outside its bracket, whose upper end is at most {worst:.1e} too large",
        f"the automatic choice takes {extent(row['ratio'] for row in results['choice'])} times as long as the fastest",
        *(_beside(results["comparison"]["summary"], padding) for padding in PADDINGS),
        *map(_certified, results["networks"]),
        met(results["targets"]),
    )


def _beside(rows: list[dict[str, Any]], padding: str) -> str:
    """How `spectral_norm` and the tightest published bound compare to the norm."""
    rows = [row for row in rows if row["padding"] == padding and row["bound"]]
    peers = sorted((row for row in rows if not row["ours"]), key=lambda row: (round(row["median"], 4), row["time"]))
    if not peers:
        return ""
    best, name = peers[0], "zero" if padding == "zeros" else padding
    return (
        f"with {name} padding its bound is {rows[0]['median']:.3f} times the norm in the median of {best['cases']} "
        f"layers, the tightest published one ({best['method']}) {best['median']:.3f} times, in {best['time']:.2f} of "
        "the time"
    )


def _certified(found: dict[str, Any], radius: str = "36/255") -> str:
    """Certified accuracy by the kind of layer, and what follows for rescaled against orthogonal ones."""
    if "left_out" in found:
        return f"{found['data']} was left out"
    shares = [f"{row['arm']} {row['accuracy'][radius]:.1%}" for row in found["rows"]]
    verdict = next(row["verdict"] for row in found["verdicts"] if (row["arm"], row["radius"]) == ("SR", radius))
    return (
        f"of {found['data']}, networks of 1-Lipschitz layers certify at {radius} {listed(shares)} (SR against "
        f"orthogonal: {verdict})"
    )


def ladder(config: Config) -> list[dict[str, Any]]:
    """σ₁ of one zero-padded kernel on n×n points: power iteration from below, and every bound from above."""
    k, channels = config.ladder_kernel, config.ladder_channels
    generator = torch.Generator().manual_seed(config.seed)
    weight = torch.randn(channels, channels, k, k, dtype=torch.float64, generator=generator) / (k * channels**0.5)
    rows = []
    for n in config.ladder:
        conv = lambda x: functional.conv2d(x, weight, padding="same")  # noqa: E731
        below = power_iteration(conv, (channels, n, n), iterations=500 if n <= 16 else 100)

        def on(size: int) -> float:
            return torus_norm(weight[None], (size, size), (1, 1)).floats().upper

        values = {
            "power iteration": float(below),
            "torus n (circular)": on(n),
            "torus n + p": on(n + k // 2),
            "torus n + k − 1": on(n + k - 1),
            "bridge from the torus n": on(n) * bridge_factor((k, k), (n, n)) if n > 2 * (k // 2) else None,
            "no grid": spectral_norm(weight).floats().upper,
        }
        values |= {f"Gram of kernels, t = {t}": float(kernel_gram_bound(weight, steps=t)) for t in (1, 2, 3)}
        rows.append({"n": n, **values, "spectral_norm": spectral_norm(weight, grid=n).floats().upper})
    return rows


def _bounds(row: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in row.items() if name not in ("n", *_NOT_BOUNDS) and value is not None}


def _targets(results: dict[str, Any]) -> list[dict[str, Any]]:
    rows = [
        target("random maps", sum(row["cases"] for row in results["cases"]), least=10_000),
        target("of them outside their bracket", sum(row["violations"] for row in results["cases"]), most=0),
    ]
    for row in results["choice"]:
        rows.append(target(f"automatic over best ({row['best']}), {row['problem']}", row["ratio"], most=CHOICE_TARGET))
    for row in results["choice"]:
        if row["problem"] in ("dense 512", "dense 256"):
            rows.append(target(f"torch's svdvals over automatic, {row['problem']}", row["over_svdvals"], least=1.0))
    return rows


def _outside(results: dict[str, Any]) -> str:
    """The maps, rungs and bounds of layers outside their brackets, or nothing."""
    off = [f"{row['violations']} of {row['kind']}" for row in results["cases"] if row["violations"]]
    for row in results["ladder"]:
        off += [f"{name} at n = {row['n']}" for name, value in _bounds(row).items() if value < row["power iteration"]]
    off += broken(results["comparison"]["layers"])
    return "outside the bracket: " + "; ".join(off) if off else ""


def _print(results: dict[str, Any], config: Config) -> None:
    columns = "random maps=kind; cases; violations; above:.1e; worst:.1e; below:.1e"
    print_table(results["cases"], columns, title="")
    print("above, below: medians of upper/σ₁ − 1 and 1 − lower/σ₁ (four steps of power iteration where it is needed)")
    print("\nerror against time: milliseconds, |estimate/σ₁ − 1|, share of seeds below σ₁")
    for name, rows in grouped(results["speed"], "problem").items():
        print(f"  {name}")
        print_table(rows, "method; steps; ms=1e3*seconds:.3f; error:.1e; below=under:.0%", indent=4)
    title = f"share of {config.shares} Gaussian 16×16 matrices that an estimate misses from below, and its errors"
    print_table(results["shares"], "=dtype; method; share=under:.1%; lowest:.1e; highest:.1e", title=title, indent=2)
    title = "orthogonal 64×64: μ_t − 1 after t steps, 64^{1/p} − 1, and what the lower end lacks"
    print_table(results["orthogonal"], "t=steps; above:.2e; theory:.2e; below:.1e", title=title, indent=2)
    k, c = config.ladder_kernel, config.ladder_channels
    title = (
        f"zero padding, {c} to {c} channels, {k}×{k}, by points per axis (torus n and power iteration are no bounds)"
    )
    rungs = {name: {str(row["n"]): row[name] for row in results["ladder"]} for name in results["ladder"][0]}
    sizes = [f"{n}:.4f" for n in rungs.pop("n")]
    print_table(rungs, "=name", *sizes, title=title, indent=2)
    title = "automatic choice: milliseconds by method, against the best, and torch.linalg.svdvals over it"
    times = (
        "auto=1e3*auto:.3f; gram=1e3*gram:.3f; eigvalsh=1e3*eigvalsh:.3f; svdvals=1e3*svdvals:.3f; torch=1e3*torch:.3f"
    )
    print_table(results["choice"], "=problem", times, "best; ratio:.2f; over svdvals=over_svdvals:.2f", title=title)
    print_comparison(results["comparison"])
    print_networks(results["networks"])
    print_targets(results["targets"])


def _draw(results: dict[str, Any], config: Config, folder: Path) -> None:
    _draw_speed(results, folder / "error_against_time.png")
    _draw_ladder(results, config, folder / "zero_padding.png")
    draw_comparison(results["comparison"], folder / "published_bounds.png")
    draw_networks(results["networks"], folder / "certified_accuracy.png")


def _draw_speed(results: dict[str, Any], path: Path) -> None:
    problems = grouped(results["speed"], "problem")
    caption = (
        "Error of an estimate of the norm against the time of a call; in the legend, the share of estimates below it."
    )
    with panels(path, len(problems), 2, width=5.6, height=2.7, caption=caption) as axes:
        for axis, (name, rows) in zip(axes, problems.items()):
            for (method, own), style in zip(grouped(rows, "method").items(), series()):
                below, errors = np.mean([row["under"] for row in own]), [max(row["error"], 1e-16) for row in own]
                axis.loglog([1e3 * row["seconds"] for row in own], errors, label=f"{method}: {below:.0%}", **style)
            axis.set(title=name, xlabel="time of one call (ms)", ylabel="|estimate / σ₁ − 1|")
            axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), title="share of estimates below σ₁")


def _draw_ladder(results: dict[str, Any], config: Config, path: Path) -> None:
    rows = results["ladder"]
    caption = (
        "Bounds of the norm of a zero-padded convolution against the size of the grid; power iteration from below."
    )
    with panels(path, 1, 1, width=5.6, height=3.6, caption=caption) as (axis,):
        for name, style in zip((name for name in rows[0] if name not in ("n", "spectral_norm")), series()):
            if name.startswith("Gram of kernels"):
                style = style | {"color": "0.45", "marker": None, "linestyle": LINES[int(name[-1])]}
            known = [row for row in rows if row[name] is not None]
            label = f"{name} (no bound)" if name in _NOT_BOUNDS else name
            axis.plot([row["n"] for row in known], [row[name] for row in known], label=label, **style)
        k, c = config.ladder_kernel, config.ladder_channels
        axis.set_xscale("log", base=2)
        ticks(axis.xaxis, [row["n"] for row in rows])
        axis.set(title=f"zero padding, {c} to {c} channels, {k}×{k}", xlabel="points per axis n", ylabel="bound of σ₁")
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
