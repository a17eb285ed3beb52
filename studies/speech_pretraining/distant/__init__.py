"""Recordings of words whose targets need distant tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Distant:
    """What is said, and how encoders learn from it."""

    tasks: tuple[Literal["count", "key"], ...] = ()  # none: the study leaves this part out
    vocabulary: tuple[str, ...] = ("one", "two", "three", "four", "five", "six", "seven", "eight")
    keys: tuple[str, ...] = ("red", "blue", "green", "black")  # one of them is the first word of every recording
    words: int = 14  # of the vocabulary in a recording
    most: int = 3  # counts from here on are one class
    pauses: tuple[float, float] = (0.04, 0.12)  # least and longest, in seconds
    accents: tuple[str, ...] = ("gmw/en-US", "gmw/en-GB-x-rp", "gmw/en-GB-scotland", "gmw/en-029")
    voices: tuple[str, ...] = ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "f1", "f2", "f3", "f4", "f5")
    paces: tuple[int, ...] = (160, 190)
    pitches: tuple[int, ...] = (40, 60)
    recordings: int = 1000  # to learn from
    validated: int = 80  # of validation
    tested: int = 240  # of the test
    validation: float = 0.15  # share of the speakers for validation
    test: float = 0.25  # share of the speakers for the test
    mixers: tuple[str, ...] = ()
    pretrained: tuple[str, ...] = ()
    parameters: int = 40_000
    depth: int = 2
    local: int = 7
    front_channels: int = 4
    bins: int = 24
    codes: int = 256
    steps: int = 500
    labelled_batch: int = 8
    rates: tuple[float, ...] = (3e-3, 6e-3, 1.2e-2)
    pretrain_steps: int = 250
    batch: int = 8
    pretrain_rates: tuple[float, ...] = (3e-3,)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
