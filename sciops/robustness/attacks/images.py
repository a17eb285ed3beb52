"""Attacks on image classifiers: projected gradient ascent, and those of foolbox and AutoAttack, with one signature."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.models.apply import evaluating
from sciops.robustness.attacks.fields import Norm, pgd
from sciops.robustness.checks import check_choice, check_images, check_labels
from sciops.robustness.field_norm import per_sample
from sciops.values import check_whole

__all__ = ["ImageAttack", "autoattack", "foolbox_attack", "image_pgd", "robust_accuracy"]

Loss = Literal["cross_entropy", "margin"]

_AUTOATTACK = ("apgd-ce", "apgd-dlr", "fab", "square", "apgd-t", "fab-t")
_STANDARD = ("apgd-ce", "apgd-t", "fab-t", "square")
_LEAST_CLASSES = {"apgd-dlr": 3, "apgd-t": 4}  # their losses compare the third and the fourth largest logit
_ROUNDING = 1e-5  # of ε, what float32 arithmetic of other packages may add to a perturbation


@dataclass(frozen=True)
class ImageAttack:
    """The result of an attack on an image classifier.

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
    """Projected gradient ascent (`pgd`) of a classifier's loss: max loss(f(x + δ), y) over ‖δ‖ ≤ ε within the bounds.

    Parameters
    ----------
    classifier : nn.Module
        Maps x to logits; it is evaluated in evaluation mode.
    x : Tensor (batch, channels, height, width)
        Images; the norm is over all channels together.
    y : Tensor (batch,)
        Integer labels.
    epsilon, norm, steps, restarts, seed
        As for `pgd`.
    step : float, optional
        η/ε; default adaptive.
    loss : str
        "margin", max_{j≠y} f_j − f_y, which is positive exactly where the classifier is wrong and does not saturate; or
        "cross_entropy".
    bounds : tuple of float
        Lower and upper bound of x + δ.

    Returns
    -------
    ImageAttack

    Raises
    ------
    ValueError
        For numbers out of range, images outside the bounds and labels that are not among the classifier's.
    """
    check_choice(get_args(Loss), loss=loss)
    check_images(x, y, epsilon, norm, bounds)
    y = y.long()

    def objective(images: Tensor) -> Tensor:
        logits = classifier(images)
        return F.cross_entropy(logits, y, reduction="none") if loss == "cross_entropy" else _margin(logits, y)

    with evaluating(classifier):
        _check_classes(classifier, x, y)
        how: dict[str, Any] = dict(norm=norm, steps=steps, restarts=restarts, step=step, seed=seed)
        found = pgd(objective, x, None, epsilon=epsilon, lower=bounds[0], upper=bounds[1], **how)
        images = (x.double() + found.delta).to(x.dtype)
        return _attack(classifier, x, y, images, epsilon, norm, bounds)


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

    Raises ValueError as `image_pgd` does.
    """
    check_images(x, y, epsilon, norm, bounds)
    y = y.long()
    foolbox = _foolbox()
    names = {
        "pgd": "ProjectedGradientDescentAttack",
        "fast_gradient": "FastGradientAttack",
        "basic_iterative": "BasicIterativeAttack",
        "deepfool": "DeepFoolAttack",
    }
    prefix = {"l2": "L2", "linf": "Linf"}[norm]
    if isinstance(attack, str):
        check_choice(tuple(names), attack=attack)
        kind = getattr(foolbox.attacks, prefix + names[attack], None)
        if kind is None:
            raise ValueError(f"attack={attack!r}: foolbox has no {prefix + names[attack]}")
        attack = kind(**options)
    with evaluating(classifier), torch.random.fork_rng():
        torch.manual_seed(seed)
        _check_classes(classifier, x, y)
        model = foolbox.PyTorchModel(classifier, bounds=bounds, device=x.device)
        _, images, _ = attack(model, x, y, epsilons=epsilon)
        return _attack(classifier, x, y, images.detach(), epsilon, norm, bounds)


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
        "apgd-t", "fab-t", "square". "apgd-t" needs at least four classes and "apgd-dlr" three; "square" needs images
        of at least 5×5 points in ℓ₂
    seed : pyautoattack draws from torch's global generator, which is restored afterwards

    Raises ValueError as `image_pgd` does, and for attacks that the classifier or the images do not allow.
    """
    try:
        from pyautoattack import AutoAttack
    except ImportError:
        raise ImportError("autoattack needs pyautoattack: pip install 'sciops[robust]'") from None
    if float(x.min()) < 0 or float(x.max()) > 1:
        raise ValueError(f"x lies in [{float(x.min()):g}, {float(x.max()):g}]; AutoAttack takes images in [0, 1]")
    check_images(x, y, epsilon, norm, (0.0, 1.0))
    check_whole(batch_size=batch_size)
    y = y.long()
    chosen = {"version": "standard"} if attacks is None else {"version": "custom", "attacks": list(attacks)}
    tracer = sys.gettrace()  # pyautoattack sets a trace of its own and then none
    try:
        with evaluating(classifier), torch.random.fork_rng():
            torch.manual_seed(seed)
            classes = _check_classes(classifier, x, y)
            _check_suite(_STANDARD if attacks is None else tuple(attacks), classes, x, norm)
            suite = AutoAttack(
                classifier, norm={"l2": "L2", "linf": "Linf"}[norm], eps=epsilon, device=x.device, seed=seed, **chosen
            )
            for targeted in (suite.apgd_targeted, suite.fab):
                targeted.n_target_classes = min(targeted.n_target_classes, classes - 1)
            images, _ = suite.run_standard_evaluation(x, y, batch_size=batch_size)
            return _attack(classifier, x, y, images.detach(), epsilon, norm, (0.0, 1.0))
    finally:
        sys.settrace(tracer)


def robust_accuracy(attacks: Sequence[ImageAttack]) -> float:
    """The share of images that none of the attacks fooled: an upper bound on the worst-case accuracy."""
    if not attacks:
        raise ValueError("no attacks: expected at least one")
    sizes = sorted({len(attack.fooled) for attack in attacks})
    if len(sizes) > 1:
        raise ValueError(f"attacks on {' and '.join(map(str, sizes))} images: expected attacks on the same images")
    fooled = torch.stack([attack.fooled for attack in attacks]).any(0)
    return float((~fooled).double().mean())


def _attack(
    classifier: nn.Module, x: Tensor, y: Tensor, images: Tensor, epsilon: float, norm: str, bounds: tuple[float, float]
) -> ImageAttack:
    # an attack that looks for the smallest perturbation may return a longer one, or none: it does not count
    delta = (images.double() - x.double()).flatten(1)
    size = torch.linalg.vector_norm(delta, dim=1) if norm == "l2" else delta.abs().amax(1)
    rounding = torch.finfo(x.dtype).eps
    allowed = size <= epsilon * (1 + _ROUNDING) + 8 * rounding * math.sqrt(delta.shape[1])
    slack = 8 * rounding * max(map(abs, bounds))
    allowed &= ((images >= bounds[0] - slack) & (images <= bounds[1] + slack)).flatten(1).all(1)
    images = torch.where(per_sample(allowed, x), images, x).clamp(*bounds)
    with torch.no_grad():
        logits, clean = classifier(images), classifier(x)
    if bool(logits.isnan().any() or clean.isnan().any()):
        raise ValueError(
            "the classifier returned nan: check its weights, and the images for values that it cannot take"
        )
    already, fooled = clean.argmax(1) != y, allowed & (logits.argmax(1) != y)
    unchanged = ~allowed | (already & ~fooled)
    images = torch.where(per_sample(unchanged, x), x, images)
    return ImageAttack(images, fooled | already, torch.where(unchanged, 0.0, size))


def _check_classes(classifier: nn.Module, x: Tensor, y: Tensor) -> int:
    """The number of classes, after the checks of labels and logits."""
    with torch.no_grad():
        logits = classifier(x[:1])
    check_labels(logits, y)
    return logits.shape[1]


def _check_suite(attacks: Sequence[str], classes: int, x: Tensor, norm: str) -> None:
    unknown = [name for name in attacks if name not in _AUTOATTACK]
    if unknown or not attacks:
        raise ValueError(f"attacks={tuple(attacks)}: expected some of {', '.join(_AUTOATTACK)}")
    few = [name for name in attacks if classes < _LEAST_CLASSES.get(name, 2)]
    small = "square" in attacks and norm == "l2" and min(x.shape[-2:]) < 5
    if few or small:
        left = [name for name in ("apgd-ce", "fab-t", "square") if not (small and name == "square")]
        why = (
            f"{few[0]!r} compares {_LEAST_CLASSES[few[0]]} classes, the classifier has {classes}"
            if few
            else (f"'square' needs images of at least 5×5 points in l2, these have {x.shape[-2]}×{x.shape[-1]}")
        )
        raise ValueError(f"attacks: {why}; pass attacks={left}")


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
