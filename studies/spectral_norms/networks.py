"""Small 1-Lipschitz classifiers with rescaled and with orthogonal layers: certified accuracy on images in [0, 1]."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sciops.datasets import load_images
from sciops.evaluation import paired_verdict
from sciops.grids import Grid
from sciops.lipschitz import RescaledLinear, RescaledResidual, lipschitz_bound
from sciops.models.orthogonal import orthogonalize_
from sciops.plotting import series
from studies.kit.figures import band, panels
from studies.kit.tables import print_table

ARMS = ("AOL", "SR", "residual SR", "orthogonal")
"""rescaled rows with t = 1 and t = 4, residual layers of t = 4, and orthonormal rows kept by projection"""

RADII = tuple(value / 255 for value in (0, 36, 72, 108, 255))
"""of perturbations in the Euclidean norm of images in [0, 1]"""

CURVE = tuple(value / 255 for value in range(0, 256, 15))
"""radii of the figure"""

_OFFSET = 0.5  # radius for which training asks a margin
_TEMPERATURE = 0.25


class MaxMin(nn.Module):
    """Sorts neighbouring values by pairs, (max(a, b), min(a, b)): 1-Lipschitz, and keeps the norm of gradients.

    References
    ----------
    Anil, Lucas & Grosse 2019 (arXiv:1811.05381).
    """

    def forward(self, x: Tensor) -> Tensor:
        pairs = x.unflatten(-1, (-1, 2))
        return torch.stack([pairs.amax(-1), pairs.amin(-1)], -1).flatten(-2)

    def lipschitz_rule(self, setting: Any) -> tuple[float, str]:
        return 1.0, "a permutation of values at every point"


def network(arm: str, inputs: int, width: int, depth: int, classes: int = 10) -> nn.Sequential:
    """Flattened images through `depth` hidden layers of `width` values to logits, ‖f(x) − f(y)‖ ≤ ‖x − y‖.

    Raises ValueError for an unknown arm, and for an odd width or one above the number of inputs.
    """
    if arm not in ARMS:
        raise ValueError(f"arm={arm!r}: expected one of {', '.join(ARMS)}")
    if width % 2 or not 0 < width <= inputs:
        raise ValueError(f"width={width}: expected an even number of at most the {inputs} inputs")

    def linear(a: int, b: int) -> nn.Module:
        return nn.Linear(a, b) if arm == "orthogonal" else RescaledLinear(a, b, steps=1 if arm == "AOL" else 4)

    parts: list[nn.Module] = [nn.Flatten(), linear(inputs, width)]
    for _ in range(depth - 1):
        parts += [RescaledResidual(width)] if arm == "residual SR" else [MaxMin(), linear(width, width)]
    model = nn.Sequential(*parts, *([] if arm == "residual SR" else [MaxMin()]), linear(width, classes))
    project(model)
    return model


def project(model: nn.Module) -> None:
    """Gives the plain linear layers orthonormal rows again; the others are 1-Lipschitz for every weight."""
    orthogonalize_([layer for layer in model if isinstance(layer, nn.Linear)], method="polar")  # type: ignore[attr-defined]


def trained(
    arm: str, data: dict[str, Tensor], seed: int, *, width: int, depth: int, epochs: int, rate: float = 5e-3
) -> tuple[nn.Sequential, float]:
    """(network, seconds of training) after Adam with a cosine schedule, batches of 64.

    The loss is the cross-entropy of (f(x) − √2 ε e_y) / T with ε = 0.5 and T = 1/4, which asks for a margin (Prach &
    Lampert 2022, arXiv:2208.03160). Orthogonal layers are projected after every step.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = network(arm, data["train x"][0].numel(), width, depth)
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        steps = epochs * math.ceil(len(data["train x"]) / 64)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        start = time.perf_counter()
        for _ in range(epochs):
            for batch in torch.randperm(len(data["train x"])).split(64):
                labels = data["train y"][batch]
                logits = model(data["train x"][batch])
                logits = logits - math.sqrt(2) * _OFFSET * nn.functional.one_hot(labels, logits.shape[1])
                optimizer.zero_grad()
                nn.functional.cross_entropy(logits / _TEMPERATURE, labels).backward()
                optimizer.step()
                schedule.step()
                if arm == "orthogonal":
                    project(model)
        return model, time.perf_counter() - start


@torch.no_grad()
def certified_radii(model: nn.Sequential, images: Tensor, labels: Tensor) -> tuple[np.ndarray, float]:
    """(radii (images,), L): no perturbation of Euclidean norm below the radius changes the class; −1 where it is wrong.

    (f_y − max_{j≠y} f_j) / (√2 L) in float64, with L the bound of `lipschitz_bound`. The network is float64 afterwards.
    """
    model.double()
    bound = lipschitz_bound(model, Grid(images.shape[2:], centering="cell")).value
    if bound is None:
        raise RuntimeError("a layer of the classifier has no Lipschitz bound")
    logits = model(images.double())
    right = logits.gather(1, labels[:, None])[:, 0]
    other = logits.scatter(1, labels[:, None], -torch.inf).amax(1)
    radii = (right - other) / (math.sqrt(2) * bound)
    return torch.where(radii > 0, radii, -1.0).numpy(), bound


def images_of(name: str) -> dict[str, Tensor]:
    """Images in [0, 1] and labels of training and test: digits, or the 60 000 and 10 000 of Fashion-MNIST."""
    if name == "digits":
        splits = load_images(name, validation=0, test=450, standardize=False)
    else:
        splits = load_images(name, validation=0, standardize=False)
    data = {}
    for part, images in (("train", splits.train), ("test", splits.test)):
        whole = images.batch(np.arange(len(images)))
        data[f"{part} x"], data[f"{part} y"] = whole["x"], whole["y"].argmax(1)
    return data


def compare_networks(
    name: str,
    seeds: int,
    *,
    width: int,
    depth: int,
    epochs: int,
    progress: Callable[[Any], Iterable[Any]] = iter,
) -> dict[str, Any]:
    """{"rows": one an arm, "verdicts": one an arm and radius, against "orthogonal"} on the test images.

    {"data": name, "left_out": reason} where Fashion-MNIST is not on this machine.
    """
    try:
        data = images_of(name)
    except FileNotFoundError as error:
        return {"data": name, "left_out": str(error)}
    radii: dict[str, list[np.ndarray]] = {arm: [] for arm in ARMS}
    seconds: dict[str, list[float]] = {arm: [] for arm in ARMS}
    bounds: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for seed, arm in progress([(seed, arm) for seed in range(seeds) for arm in ARMS]):
        model, took = trained(arm, data, seed, width=width, depth=depth, epochs=epochs)
        found, bound = certified_radii(model, data["test x"], data["test y"])
        radii[arm].append(found)
        seconds[arm].append(took)
        bounds[arm].append(bound)
    rows = []
    for arm in ARMS:
        shares = {_name(radius): [float((own > radius).mean()) for own in radii[arm]] for radius in RADII}
        rows.append(
            {
                "arm": arm,
                "accuracy": {radius: float(np.mean(values)) for radius, values in shares.items()},
                "by_seed": shares,
                "curve": [[float((own > radius).mean()) for radius in CURVE] for own in radii[arm]],
                "bound": max(bounds[arm]),
                "seconds": float(np.median(seconds[arm])),
            }
        )
    verdicts = [_against(arm, radius, radii) for arm in ARMS if arm != "orthogonal" for radius in RADII]
    return {"data": name, "seeds": seeds, "test": len(data["test y"]), "rows": rows, "verdicts": verdicts}


def _name(radius: float) -> str:
    return f"{255 * radius:.0f}/255"


def _against(arm: str, radius: float, radii: dict[str, list[np.ndarray]]) -> dict[str, Any]:
    """The gain in certified accuracy over orthogonal layers and its interval, over seeds and test images."""
    missed = [np.stack([own <= radius for own in radii[one]]).astype(float) for one in (arm, "orthogonal")]
    found = paired_verdict(*missed)
    words = {"first": f"{arm} higher", "second": "orthogonal higher"}
    return {
        "arm": arm,
        "radius": _name(radius),
        "gain": -found.difference,
        "low": -found.high,
        "high": -found.low,
        "verdict": words.get(found.winner, found.winner),
    }


def print_networks(compared: list[dict[str, Any]]) -> None:
    """Certified accuracy by radius, and the verdicts against orthogonal layers."""
    for found in compared:
        if "left_out" in found:
            print(f"\n{found['data']} left out: {found['left_out']}")
            continue
        title = (
            f"\n1-Lipschitz classifiers of {found['data']}: certified accuracy by radius, means of {found['seeds']} "
            f"seeds on {found['test']} test images"
        )
        columns = [f"{_name(radius)}=accuracy.{_name(radius)}:.3f" for radius in RADII]
        print_table(found["rows"], "=arm", *columns, "bound:.4f; seconds:.1f", title=title)
        print("bound: the largest Lipschitz bound of the seeds, by which margins are divided; seconds: of one training")
        title = "certified accuracy less that of orthogonal layers, with its interval over seeds and images"
        print_table(found["verdicts"], "=arm; radius; gain:+.3f; low:+.3f; high:+.3f; verdict", title=title, indent=2)


def draw_networks(compared: list[dict[str, Any]], path: Path) -> None:
    """Certified accuracy against the radius, one panel a data set."""
    shown = [found for found in compared if "left_out" not in found]
    if not shown:
        return
    caption = "Certified accuracy against the radius of the perturbation: mean over the seeds, least and greatest."
    with panels(path, len(shown), 2, width=4.6, height=3.2, caption=caption) as axes:
        for axis, found in zip(axes, shown):
            for row, style in zip(found["rows"], series()):
                band(axis, [255 * radius for radius in CURVE], row["curve"], label=row["arm"], style=style)
            axis.set(title=found["data"], xlabel="radius, Euclidean, images in [0, 1] (1/255)")
            axis.set(ylabel="share of test images certified", ylim=(0, 1))
        axes[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
