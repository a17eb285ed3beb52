"""Who takes part in the study of levels: mixers of one spine or classifier, which differ in the pyramid alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Arm:
    """A mixer.

    mixer : "multipole" with `options` of `MultipoleAttention`; "spectral", that of the case; "both", the two in turns
    local : also the spine's own depthwise 3×3 kernel on the finest level; fields only
    levels : "full", "one", or "" without a pyramid; where the tables and figures count the arm
    """

    mixer: str = "multipole"
    options: Mapping[str, Any] = field(default_factory=dict)
    local: bool = False
    levels: str = "full"


def _paper(**options: Any) -> dict[str, Any]:
    return {"pyramid": "paper", **options}


def _smooth(first: int | str, **options: Any) -> dict[str, Any]:
    return {"pyramid": "smooth", "attention_from": first, **options}


ARMS: dict[str, Arm] = {
    "spectral": Arm("spectral", levels=""),
    "paper": Arm(options=_paper()),
    "paper, one level": Arm(options=_paper(levels=1), levels="one"),
    "paper + local": Arm(options=_paper(), local=True),
    "paper + kernels": Arm(options=_paper(kernels=True)),
    "smooth, no kernels": Arm(options=_smooth(0, kernels=False)),
    "smooth from 0": Arm(options=_smooth(0)),
    "smooth from 1": Arm(options=_smooth(1)),
    "smooth from 2": Arm(options=_smooth(2)),
    "smooth, bounded scores": Arm(options=_smooth(2, cosine=True, cosine_floor=1.0)),
    "linear pyramid": Arm(options=_smooth("none")),
    "smooth, one level": Arm(options=_smooth(0, levels=1), levels="one"),
    "kernels, one level": Arm(options=_smooth("none", levels=1), levels="one"),
    "hybrid, paper": Arm("both", _paper()),
    "hybrid, smooth": Arm("both", _smooth(2)),
    "hybrid, linear": Arm("both", _smooth("none")),
    # the rest of {full, one level} × {kernels} × {attention from 0, 1, 2, none} × {paper, smooth}
    "paper from 1": Arm(options=_paper(attention_from=1)),
    "paper from 2": Arm(options=_paper(attention_from=2)),
    "paper + kernels from 1": Arm(options=_paper(kernels=True, attention_from=1)),
    "paper + kernels from 2": Arm(options=_paper(kernels=True, attention_from=2)),
    "paper + kernels, no attention": Arm(options=_paper(kernels=True, attention_from="none")),
    "paper + kernels, one level": Arm(options=_paper(kernels=True, levels=1), levels="one"),
    "smooth from 1, no kernels": Arm(options=_smooth(1, kernels=False)),
    "smooth from 2, no kernels": Arm(options=_smooth(2, kernels=False)),
    "smooth, one level, no kernels": Arm(options=_smooth(0, kernels=False, levels=1), levels="one"),
}

ATTENTIVE = ("smooth from 0", "smooth from 1", "smooth from 2", "smooth, bounded scores")
FULL = (*ATTENTIVE, "linear pyramid")  # smooth, with kernels, all levels
ONE = ("smooth, one level", "kernels, one level")

# question → (with, without): the first of each pair has the part that the question is about
QUESTIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "levels": (
        ("linear pyramid", "kernels, one level"),
        ("smooth from 0", "smooth, one level"),
        ("paper", "paper, one level"),
    ),
    "kernels": (("smooth from 0", "smooth, no kernels"), ("paper + kernels", "paper"), ("paper + local", "paper")),
    "smooth samplers": (("smooth from 0", "paper + kernels"),),
    "attention": tuple((name, "linear pyramid") for name in ATTENTIVE),
    "the smooth form": (("smooth from 2", "paper"), ("linear pyramid", "paper"), ("linear pyramid", "paper + local")),
    "against the spectral spine": (("smooth from 2", "spectral"), ("linear pyramid", "spectral")),
    "the smooth form in the hybrid": (("hybrid, smooth", "hybrid, paper"), ("hybrid, linear", "hybrid, paper")),
}
