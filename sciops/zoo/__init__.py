"""Small trained models that come with the package, each with a card that says what it was trained on and how well.

>>> import sciops
>>> "burgers256" in sciops.zoo.names()                              # doctest: +SKIP
>>> model = sciops.load_model("zoo:burgers256")                     # doctest: +SKIP

A model's folder is that of a run of ``sciops train`` without its checkpoints: ``sciops predict``, ``sciops evaluate``
and ``sciops info`` take ``zoo:NAME`` in place of it. ``sciops study zoo`` trains the models anew and writes the cards.
"""

from __future__ import annotations

import os
from pathlib import Path

from sciops.zoo.card import ModelCard, has_card, read_card, write_card

__all__ = ["PREFIX", "ModelCard", "card", "folder_of", "has_card", "names", "read_card", "resolved", "write_card"]

PREFIX = "zoo:"
_HERE = Path(__file__).parent / "models"


def names() -> list[str]:
    """Names of the models, in alphabetical order."""
    return sorted(path.parent.name for path in _HERE.glob("*/card.json"))


def folder_of(name: str) -> Path:
    """Folder of a model, with or without "zoo:" before its name.

    Raises ValueError for an unknown name, naming the known ones.
    """
    known, plain = names(), name.removeprefix(PREFIX)
    if plain not in known:
        raise ValueError(f"{PREFIX}{plain}: expected one of {', '.join(known)}; sciops zoo describes them")
    return _HERE / plain


def card(name: str) -> ModelCard:
    """Card of a model: its data, its recipe, its error with the spread, its limits. Raises as `folder_of` does."""
    return read_card(folder_of(name))


def resolved(path: str | os.PathLike[str]) -> Path:
    """The folder of "zoo:NAME"; any other path is returned as it is."""
    text = os.fspath(path)
    return folder_of(text) if text.startswith(PREFIX) else Path(path)
