"""`sciops doctor`: what this machine offers, what a file is, and which command fits it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
from pathlib import Path
from typing import Any

__all__ = ["doctor"]

# extra → the packages it brings; where one is missing, the command that installs them
_EXTRAS = {
    "fast": ("numba",),
    "cluster": ("dask", "distributed", "cryptography", "zarr"),
    "download": ("pooch",),
    "vision": ("transformers", "scikit-learn", "pillow"),
    "robust": ("foolbox", "pyautoattack"),
    "text": ("tokenizers",),
    "speech": ("jiwer", "soundfile"),
    "track": ("tensorboard", "trackio"),
    "wandb": ("wandb",),
}
_MODULES = {"scikit-learn": "sklearn", "pillow": "PIL"}  # where the import has another name
_USED_FOR = {
    "fast": "the compiled Darcy solver; torch serves without it, several times slower",
    "cluster": "generation by several processes or machines, Zarr files",
    "download": "sciops download",
    "vision": "baselines and data of image classification",
    "robust": "attacks on classifiers",
    "text": "tokenizers of language models",
    "speech": "sound files and word error rates",
    "track": "TensorBoard and trackio",
    "wandb": "Weights & Biases",
}
_CORE = ("torch", "numpy", "scipy", "h5py", "xarray", "neuraloperator")
_LITTLE_SPACE = 2.0  # GB


def doctor(path: str | os.PathLike | None = None) -> tuple[str, bool]:
    """(the report, whether all is well).

    path : a file or folder to look at besides the environment. A file that cannot be opened is described as far as it
        can be: its size, its first bytes, the arrays in it, and the layouts it comes nearest to

    Nothing in the file is executed, and nothing is written.
    """
    lines = ["environment", *(f"  {line}" for line in _environment())]
    well = True
    if path is not None:
        said, well = _file(Path(path))
        lines += ["", str(path), *(f"  {line}" for line in said)]
    return "\n".join(lines), well


def _environment() -> list[str]:
    import torch

    from sciops.version import __version__

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = ", ".join(f"{name} {_version(name) or 'missing'}" for name in _CORE)
    lines = [
        f"sciops     {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        f"packages   {versions}",
        f"processor  {cores} cores for this process, torch uses {torch.get_num_threads()} threads",
        f"devices    {_devices(torch)}",
    ]
    for extra, packages in _EXTRAS.items():
        missing = [name for name in packages if importlib.util.find_spec(_MODULES.get(name, name)) is None]
        have = ", ".join(f"{name} {_version(name)}" for name in packages if name not in missing)
        if missing:
            lines.append(
                f"[{extra}]".ljust(11)
                + f"lacks {', '.join(missing)} ({_USED_FOR[extra]}): pip install 'sciops[{extra}]'"
            )
        else:
            lines.append(f"[{extra}]".ljust(11) + have)
    old = _too_old()
    if old:
        lines.append(f"too old    {'; '.join(old)}: pip install --upgrade sciops")
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    lines.append(f"disk       {free:.1f} GB free here" + (": little for data sets" if free < _LITTLE_SPACE else ""))
    return lines


def _file(path: Path) -> tuple[list[str], bool]:
    from sciops.datasets.checks.description import describe

    try:
        return describe(path).splitlines()[1:], True
    except (OSError, ValueError, ImportError) as error:
        lines = [f"cannot be opened: {' '.join(str(error).split())}"]
    try:
        size = path.stat().st_size if path.is_file() else 0  # a pipe would be waited for
        with open(path if size else os.devnull, "rb") as file:
            head = file.read(16)
    except OSError:  # not ours to read
        return lines, False
    if size:
        text = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in head)
        lines.append(f"size       {size} bytes, beginning {head.hex(' ')}  {text}")
        lines += _nearest(path)
    return lines, False


def _nearest(path: Path) -> list[str]:
    """The table of contents, and the layouts that share the most of its words."""
    from sciops.datasets.formats import READERS, probe
    from sciops.files.messages import shown

    try:
        arrays = probe(path).arrays
    except (OSError, ValueError, ImportError):
        return []
    if not arrays:
        return []
    lines = [f"holds      {shown(name, 60)} {entry.dtype} {entry.shape}" for name, entry in list(arrays.items())[:12]]
    if len(arrays) > 12:
        lines.append(f"           … {len(arrays)} arrays")
    words = {word for name in arrays for word in re.split(r"[^A-Za-z]+", name) if len(word) > 1}
    shared = {name: len(words & set(re.split(r"[^A-Za-z]+", reader.expects))) for name, reader in READERS.items()}
    for name in sorted((n for n in shared if shared[n]), key=lambda n: -shared[n])[:3]:
        lines.append(f"nearest    {name}: {READERS[name].expects}")
    return lines


def _devices(torch: Any) -> str:
    found = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    if getattr(torch.backends, "mps", None) is not None and torch.backends.mps.is_available():
        found.append("mps")
    return ", ".join(["cpu", *found])


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _too_old() -> list[str]:
    """Requirements of this package that the installed versions do not meet, as "numpy 1.20 (numpy>=1.26)"."""
    try:
        wanted = importlib.metadata.requires("sciops") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    old = []
    for requirement in wanted:
        match = re.match(r"([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?\s*[^;]*?>=\s*([0-9.]+)", requirement)
        have = _version(match[1]) if match else None
        if match and have is not None and _numbers(have) < _numbers(match[2]):
            old.append(f"{match[1]} {have} (>={match[2]})")
    return old


def _numbers(version: str) -> tuple[int, ...]:
    """Three numbers to compare: 1.26 is 1.26.0."""
    return tuple(int(part) for part in [*re.findall(r"\d+", version.split("+")[0]), "0", "0"][:3])
