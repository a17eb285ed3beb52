"""Tiny sound files of what is no container of arrays, each with a loader and, where it has one, the digest of its
content."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sciops.files.digest import digest_of

__all__ = ["KINDS", "content_of", "makers"]

_SMALL = {"width": 4, "depth": 1, "modes": (2, 2)}


def _image(suffix: str, **options: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        from PIL import Image

        pixels = np.random.default_rng(0).integers(0, 256, (9, 12, 3), np.uint8)
        image = Image.fromarray(pixels if suffix != ".pgm" else pixels[..., 0])
        image.save(folder / f"a{suffix}", **options)
        return folder / f"a{suffix}"

    return make


def _idx(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        from sciops.datasets.images import write_idx

        return write_idx(folder / name, np.arange(60, dtype=np.int16).reshape(3, 4, 5))

    return make


def _cifar(folder: Path) -> Path:
    record = bytes([1]) + bytes(range(256)) * 12
    for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        (folder / name).write_bytes(record)
    return folder / "test_batch.bin"


def _wav(folder: Path) -> Path:
    from scipy.io import wavfile

    wavfile.write(folder / "a.wav", 8000, np.arange(-300, 300, dtype=np.int16))
    return folder / "a.wav"


def _flac(folder: Path) -> Path:
    import soundfile

    soundfile.write(folder / "a.flac", np.sin(np.arange(600) / 9.0), 8000)
    return folder / "a.flac"


def _tokenizer(kind: str, size: int) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        from sciops.datasets import tokenizer_for

        return tokenizer_for("the cat sat on the mat, the dog sat on the cat", size, kind).save(folder)

    return make


def _tokens(folder: Path) -> Path:
    from sciops.datasets import write_tokens

    return write_tokens(folder / "a.npy", np.arange(50, dtype=np.uint16))


def _text(folder: Path) -> Path:
    (folder / "a.txt").write_text("Größe, 尺寸 and 🐍: three lines\nof text\nin UTF-8", encoding="utf-8")
    return folder / "a.txt"


def _corpus(folder: Path) -> Path:
    from sciops.datasets.speech import Utterance, joined, save_corpus

    one = Utterance(np.sin(np.arange(60) / 9), 8000, "a b", "x", "a b", ("p", "q"), np.array([0, 30]))
    return save_corpus(joined([one, one], factors={"pitch": [1, 2]}, made_by="hand"), folder / "a.safetensors")


def _model(folder: Path) -> Path:
    from sciops.models import build_model, save_model

    save_model(build_model("fno", **_SMALL), folder, {"epoch": 3})
    return folder / "model.safetensors"


def _checkpoint(folder: Path) -> Path:
    from sciops.models import build_model
    from sciops.training import save_checkpoint
    from sciops.training.checkpoints import model_tensors

    model = build_model("fno", **_SMALL)
    state = {"epoch": 1, "validation": 0.5, "model": model.config, "history": [{"step": 1, "loss": 0.25}]}
    return save_checkpoint(folder / "best.safetensors", model_tensors(model), state)


def makers() -> dict[str, Callable[[Path], Path]]:
    """Kind → function (folder) that writes its files and returns the main one; of what is installed."""
    found = {f"image-{name}": _image(f".{name}") for name in ("png", "jpg", "pgm", "gif", "bmp", "webp")}
    found |= {"image-tif": _image(".tif", compression="tiff_lzw"), "idx": _idx("a.idx"), "idx-gz": _idx("a.idx.gz")}
    found |= {"cifar": _cifar, "wav": _wav, "characters": _tokenizer("characters", 20), "tokens": _tokens}
    found |= {"text": _text, "corpus": _corpus, "model": _model, "checkpoint": _checkpoint, "run": _checkpoint}
    for needed, kind, make in (("soundfile", "flac", _flac), ("tokenizers", "byte-pairs", _tokenizer("bpe", 265))):
        if importlib.util.find_spec(needed) is not None:
            found[kind] = make
    return found


def _pixels(path: Path) -> None:
    from sciops.datasets.images import ImageFiles

    ImageFiles([path], size=8)[np.array([0])]


def _of_idx(path: Path) -> None:
    from sciops.datasets.images import read_idx

    read_idx(path)


def _of_cifar(path: Path) -> None:
    from sciops.datasets.images import read_cifar

    read_cifar(path.parent)


def _audio(path: Path) -> None:
    from sciops.datasets.speech import read_audio

    read_audio(path)


def _of_tokenizer(path: Path) -> str:
    from sciops.datasets import load_tokenizer

    made = load_tokenizer(path)
    if '"digest"' not in path.read_text(encoding="utf-8"):  # a file of another program, for all that it says
        return ""
    tokens = made.encode("the cat, unknown: ü🐍")
    return digest_of({"tokens": np.asarray(tokens)}, [len(made), made.decode(range(len(made)))])


def _of_tokens(path: Path) -> None:
    from sciops.datasets import open_tokens

    np.asarray(open_tokens(path)[:10])


def _of_text(path: Path) -> None:
    from sciops.datasets.text import read_text

    read_text(path)


def _of_corpus(path: Path) -> str:
    from sciops.datasets.speech import load_corpus

    corpus = load_corpus(path)
    for i in range(min(len(corpus), 10)):
        corpus[i]
    return digest_of({}, [corpus.hash(), corpus.about])


def _of_model(path: Path) -> str:
    from sciops import load_model
    from sciops.models import read_config

    model = load_model(path.parent)
    about = [model.config, read_config(path.parent)["extra"] if (path.parent / "config.json").exists() else None]
    return digest_of(model.state_dict(), about)


def _of_checkpoint(path: Path) -> str:
    from sciops.training import load_checkpoint

    return digest_of(*load_checkpoint(path))


KINDS: dict[str, Callable[[Path], str | None]] = {
    "image": _pixels,
    "idx": _of_idx,
    "cifar": _of_cifar,
    "wav": _audio,
    "flac": _audio,
    "byte": _of_tokenizer,
    "characters": _of_tokenizer,
    "tokens": _of_tokens,
    "text": _of_text,
    "corpus": _of_corpus,
    "model": _of_model,
    "run": _of_model,
    "checkpoint": _of_checkpoint,
}


def content_of(path: Path, kind: str) -> str:
    """The digest of what the loader of the kind makes of the files, or "" where files of this kind have none."""
    return KINDS[kind.partition("-")[0]](path) or ""
