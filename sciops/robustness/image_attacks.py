"""Attacks on image classifiers: a PGD of our own, and the attacks of foolbox and AutoAttack behind one signature."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.models.apply import evaluating
from sciops.robustness.attacks import Norm, pgd

__all__ = ["ImageAttack", "autoattack", "foolbox_attack", "image_pgd", "robust_accuracy"]

Loss = Literal["cross_entropy", "margin"]

_ROUNDING = 1e-5  # of ε, what float32 arithmetic of other packages may add to a perturbation


@dataclass(frozen=True)
class ImageAttack:
    """What an attack returns.

    images : (batch, channels, height, width), within the bounds
    fooled : (batch,) bool, whether the classifier is wrong on them; True where it already was on the clean image
    size : (batch,) float64, ‖images − x‖ in the attack's norm, at most ε up to rounding
    """

    images: Tensor
    fooled: Tensor
    size: Tensor


def image_pgd(
    classifier: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    epsilon: float,
    norm: Norm = "l2",
    steps: int = 40,
    restarts: int = 3,
    step: float | None = None,
    loss: Loss = "margin",
    bounds: tuple[float, float] = (0.0, 1.0),
    seed: int,
) -> ImageAttack:
    """max loss(f(x + δ), y) over ‖δ‖ ≤ ε (all channels together) and bounds ≤ x + δ ≤ bounds, by `pgd`.

    x (batch, channels, height, width), y (batch,) labels; a classifier in evaluation mode maps x to logits
    loss : "margin", max_{j≠y} f_j − f_y, which is positive exactly where the classifier is wrong and does not saturate;
        or "cross_entropy"
    step : η/ε; default adapted

    Raises ValueError for images outside the bounds.
    """
    if loss not in ("cross_entropy", "margin"):
        raise ValueError(f"loss={loss!r}: expected 'cross_entropy' or 'margin'")

    def objective(images: Tensor) -> Tensor:
        logits = classifier(images)
        return F.cross_entropy(logits, y, reduction="none") if loss == "cross_entropy" else _margin(logits, y)

    with evaluating(classifier):
        found = pgd(
            objective,
            x,
            None,
            epsilon=epsilon,
            norm=norm,
            steps=steps,
            restarts=restarts,
            step=step,
            lower=bounds[0],
            upper=bounds[1],
            seed=seed,
        )
        images = (x.double() + found.delta).to(x.dtype)
        return _attack(classifier, x, y, images, epsilon, norm)


def foolbox_attack(
    classifier: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    epsilon: float,
    norm: Norm = "l2",
    attack: Any = "pgd",
    bounds: tuple[float, float] = (0.0, 1.0),
    seed: int,
    **options: Any,
) -> ImageAttack:
    """The attack of foolbox (extra `robust`) in the ball of radius ε.

    attack : "pgd", "fast_gradient", "basic_iterative", "deepfool", or a foolbox attack object
    options : of foolbox's class, such as ``steps=40``
    seed : foolbox draws from torch's global generator, which is seeded here and restored
    """
    foolbox = _foolbox()
    names = {
        "pgd": "ProjectedGradientDescentAttack",
        "fast_gradient": "FastGradientAttack",
        "basic_iterative": "BasicIterativeAttack",
        "deepfool": "DeepFoolAttack",
    }
    prefix = {"l2": "L2", "linf": "Linf"}.get(norm)
    if prefix is None:
        raise ValueError(f"norm={norm!r}: expected 'l2' or 'linf'")
    if isinstance(attack, str):
        if attack not in names:
            raise ValueError(f"attack={attack!r}: expected one of {tuple(names)}, or a foolbox attack")
        name = names[attack]
        kind = getattr(foolbox.attacks, prefix + name, None)
        if kind is None:
            raise ValueError(f"attack={attack!r}: foolbox has no {prefix + name}")
        attack = kind(**options)
    with evaluating(classifier), torch.random.fork_rng():
        torch.manual_seed(seed)
        model = foolbox.PyTorchModel(classifier, bounds=bounds, device=x.device)
        _, images, _ = attack(model, x, y, epsilons=epsilon)
        return _attack(classifier, x, y, images.detach(), epsilon, norm)


def autoattack(
    classifier: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    epsilon: float,
    norm: Norm = "l2",
    attacks: Sequence[str] | None = None,
    batch_size: int = 250,
    seed: int,
) -> ImageAttack:
    """AutoAttack (arXiv:2003.01690) by pyautoattack (extra `robust`): images in [0, 1].

    attacks : some of "apgd-ce", "apgd-dlr", "fab", "square", "apgd-t", "fab-t"; default the standard four, "apgd-ce",
        "apgd-t", "fab-t", "square", which needs at least four classes

    seed : pyautoattack draws from torch's global generator, which is restored afterwards
    """
    try:
        from pyautoattack import AutoAttack
    except ImportError:
        raise ImportError("autoattack needs pyautoattack: pip install 'sciops[robust]'") from None
    if float(x.min()) < 0 or float(x.max()) > 1:
        raise ValueError(f"x lies in [{float(x.min()):g}, {float(x.max()):g}]; AutoAttack takes images in [0, 1]")
    if norm not in ("l2", "linf"):
        raise ValueError(f"norm={norm!r}: expected 'l2' or 'linf'")
    chosen = {"version": "standard"} if attacks is None else {"version": "custom", "attacks": list(attacks)}
    tracer = sys.gettrace()  # pyautoattack sets a trace of its own and then none
    try:
        with evaluating(classifier), torch.random.fork_rng():
            torch.manual_seed(seed)
            suite = AutoAttack(
                classifier, norm={"l2": "L2", "linf": "Linf"}[norm], eps=epsilon, device=x.device, seed=seed, **chosen
            )
            with torch.no_grad():
                others = classifier(x[:1]).shape[1] - 1
            for targeted in (suite.apgd_targeted, suite.fab):
                targeted.n_target_classes = min(targeted.n_target_classes, others)
            images, _ = suite.run_standard_evaluation(x, y, batch_size=batch_size)
            return _attack(classifier, x, y, images.detach(), epsilon, norm)
    finally:
        sys.settrace(tracer)


def robust_accuracy(attacks: Sequence[ImageAttack]) -> float:
    """Share of images that none of the attacks fooled: an upper bound on the accuracy in the worst case."""
    if not attacks:
        raise ValueError("no attacks: expected at least one")
    fooled = torch.stack([attack.fooled for attack in attacks]).any(0)
    return float((~fooled).double().mean())


def _attack(classifier: nn.Module, x: Tensor, y: Tensor, images: Tensor, epsilon: float, norm: str) -> ImageAttack:
    with torch.no_grad():
        fooled = classifier(images).argmax(1) != y
        already = classifier(x).argmax(1) != y
    delta = (images.double() - x.double()).flatten(1)
    size = torch.linalg.vector_norm(delta, dim=1) if norm == "l2" else delta.abs().amax(1)
    # attacks that look for the smallest perturbation may return a longer one: it does not count
    long = size > epsilon * (1 + _ROUNDING) + 8 * torch.finfo(x.dtype).eps * math.sqrt(delta.shape[1])
    fooled = fooled & ~long
    clean = long | (already & ~fooled)
    images = torch.where(clean.reshape(-1, *(1,) * (x.ndim - 1)), x, images)
    return ImageAttack(images, fooled | already, torch.where(clean, 0.0, size))


def _margin(logits: Tensor, y: Tensor) -> Tensor:
    own = logits.gather(1, y[:, None])[:, 0]
    rest = logits.scatter(1, y[:, None], -torch.inf).amax(1)
    return rest - own


def _foolbox() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*scipy.ndimage.*", category=DeprecationWarning)
            import foolbox
    except ImportError:
        raise ImportError("foolbox_attack needs foolbox: pip install 'sciops[robust]'") from None
    return foolbox
