"""Do the loaders of models, checkpoints, corpora, tokenizers, images and recordings survive damaged and hostile files?

    python -m studies.fuzz_loaders --preset quick
    python -m studies.fuzz_loaders --layouts model checkpoint --files 20000

As `fuzz_readers` asks of containers of arrays: every file must load, or be refused in one line, within its seconds and
its memory. Files with a digest have a further rule: what is damaged never loads with another content ("silent"). Those
of the kinds that end in "-sealed" say something else and have a right digest, as whoever edits a file can give it one.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sciops.files.digest import sealed
from studies.fuzz_loaders.files import content_of, makers
from studies.fuzz_loaders.hostile import HOSTILE
from studies.kit.choices import require_known
from studies.kit.fuzzing import campaign
from studies.kit.fuzzing.campaign import Sound, Subject
from studies.kit.fuzzing.odd_contents import rewritten

_SEALED = "-sealed"


@dataclass(frozen=True)
class Config(campaign.Config):
    layouts: tuple[str, ...] = ()
    """kinds of files, such as model, checkpoint-sealed, image-png; default all"""
    seconds: float = 10.0
    """a file that takes longer is a hang; its budget is as long. Time in the queue for a processor does not count"""
    megabytes: float = 1300.0
    """a file that needs more memory is a finding: the budget is a gigabyte besides the file and its content"""
    output: Path = Path("runs/fuzz_loaders")  # folder for results.json, the figure and the files of findings


PRESETS = {
    "quick": Config(files=2_000),
    "long": Config(files=20_000),
    "full": Config(files=200_000, processes=max(2, os.cpu_count() or 2)),
}


def run(config: Config) -> dict[str, Any]:
    """Damages, loads, counts; see `studies.kit.fuzzing.campaign.run`."""
    subject = Subject("fuzz_loaders", HOSTILE, sound_files, damaged_files, "studies.fuzz_loaders.worker")
    return campaign.run(config, subject)


def sound_files(layouts: Sequence[str], scratch: Path) -> dict[str, Sound]:
    """Kind → its tiny files; kinds with a digest once more with "-sealed", without the digest they have to load with.

    Raises ValueError for a kind that is not there.
    """
    found: dict[str, Sound] = {}
    for kind, make in makers().items():
        folder = scratch / f"sound {kind}"
        folder.mkdir()
        path = make(folder)
        content = content_of(path, kind)
        files = {one.name: one.read_bytes() for one in sorted(folder.iterdir())}
        found[kind] = Sound(path.name, files, f"{kind}:{content}")
        if content and any(name.endswith(".safetensors") for name in files):
            found[kind + _SEALED] = Sound(path.name, files, kind)
        shutil.rmtree(folder)
    require_known("--layouts", layouts, found)
    return {name: found[name] for name in layouts or found}


def damaged_files(sound: Mapping[str, Sound], layout: str, seed: int, i: int) -> dict[str, bytes]:
    """The files of damaged file number i of a kind; the same for the same sound files, seed and number, besides the
    order of names in the header of one that is saved anew."""
    if not layout.endswith(_SEALED):
        return campaign.damaged_files(sound, layout, seed, i)
    random = np.random.default_rng([seed, i])
    files = dict(sound[layout].files)
    for name in (name for name in files if name.endswith(".safetensors")):
        files[name] = _said_otherwise(files[name], random)
    return files


def _said_otherwise(content: bytes, random: np.random.Generator) -> bytes:
    """A safetensors file with another text in its header, or other tensors, and a digest of what it then says."""
    import safetensors.numpy
    import safetensors.torch
    import torch

    length = struct.unpack("<Q", content[:8])[0]
    header = dict(json.loads(content[8 : 8 + length])["__metadata__"])
    header.pop("digest", None)
    tensors = safetensors.numpy.load(content)
    texts = [name for name, text in header.items() if text[:1] in ("{", "[")]
    for _ in range(int(random.integers(1, 3))):
        name = list(tensors)[int(random.integers(len(tensors)))]
        kind = int(random.integers(8))
        if kind == 0 and len(tensors) > 1:
            del tensors[name]
        elif kind == 1:
            tensors[name] = tensors[name].reshape(-1)[: int(random.integers(4))]
        elif kind == 2:
            tensors[name] = tensors[name].astype((np.int8, np.float64, np.uint16)[int(random.integers(3))])
        else:
            text = texts[int(random.integers(len(texts)))]
            header[text] = rewritten(header[text].encode(), random).decode()
    arrays = {name: np.ascontiguousarray(values) for name, values in tensors.items()}
    if "named" in header:  # a corpus, whose digest is of numpy's names for kinds of numbers
        return safetensors.numpy.save(arrays, sealed(header, arrays))
    held = {name: torch.from_numpy(values) for name, values in arrays.items()}
    return safetensors.torch.save(held, sealed(header, held))
