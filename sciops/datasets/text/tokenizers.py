"""Text as numbers and back: byte-level pairs (`tokenizers`) or characters, trained on a text, kept as JSON."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sciops.files.budget import Budget, Spending, within_budget
from sciops.files.digest import digest_of, is_sealed, is_whole, sealed
from sciops.files.json_files import write_atomically, write_json
from sciops.files.untrusted import check_regular, panics_as_errors, parse_json, read_text, refusing

__all__ = ["BytePairs", "Symbols", "encode_documents", "load_tokenizer", "tokenizer_for"]

END = "<|end|>"
FILE = "tokenizer.json"
UNKNOWN = "\ufffd"
_OF_A_TOKEN = 400  # bytes that the package takes for a token or a pair of a short text


class Symbols:
    """Every character is a token: symbols[i] has the number i + 1; 0 ends a text; "\\ufffd" is any other character."""

    end = 0

    def __init__(self, symbols: str) -> None:
        if UNKNOWN not in symbols or len(set(symbols)) != len(symbols):
            raise ValueError(f"symbols={symbols[:20]!r}…: expected different characters, \\ufffd among them")
        self.symbols = symbols
        points = np.array([ord(c) for c in symbols], np.uint32)
        self._order = np.argsort(points)
        self._points = points[self._order]
        self._unknown = 1 + symbols.index(UNKNOWN)

    def __len__(self) -> int:
        return len(self.symbols) + 1

    def encode(self, text: str) -> np.ndarray:
        points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        at = np.searchsorted(self._points, points).clip(max=len(self._points) - 1)
        return np.where(self._points[at] == points, 1 + self._order[at], self._unknown)

    def decode(self, tokens: Iterable[int]) -> str:
        tokens = [int(t) for t in tokens]
        if not all(0 <= t < len(self) for t in tokens):
            raise ValueError(f"tokens from {min(tokens)} to {max(tokens)}: expected 0 … {len(self) - 1}")
        return "".join(self.symbols[t - 1] for t in tokens if t != self.end)

    def save(self, path: str | os.PathLike) -> Path:
        return write_json(_file(path), sealed({"sciops": "2", "kind": "characters", "symbols": self.symbols}))


class BytePairs:
    """Byte-level pair encoding (arXiv:1508.07909, on bytes as GPT-2): no text is unknown, decode(encode(s)) is s.

    made by `tokenizer_for`, or of the JSON of any tokenizer of `tokenizers` that has `end` as a token
    """

    def __init__(self, description: str, *, end: str = END) -> None:
        package = _tokenizers()
        with _in_one_line("not a tokenizer"):
            self._inner = package.Tokenizer.from_str(description)
            self._inner.encode_special_tokens = True  # "<|end|>" in a text is that text, not its end
            # files of other programs may ask for their own lengths; here a text is encoded whole, and nothing else
            self._inner.no_truncation()
            self._inner.no_padding()
            self._size = 1 + max(self._inner.get_vocab().values(), default=-1)  # numbers may be left out
        found = self._inner.token_to_id(end)
        if found is None:
            raise ValueError(f"the tokenizer has no token {end!r}; pass end, the token that ends a text")
        self.end = found

    def __len__(self) -> int:
        return self._size

    def encode(self, text: str) -> np.ndarray:
        with _in_one_line("the text cannot be encoded"):
            return np.array(self._inner.encode(text, add_special_tokens=False).ids, dtype=np.int64)

    def decode(self, tokens: Iterable[int]) -> str:
        tokens = [int(t) for t in tokens]
        with _in_one_line("the tokens cannot be decoded"):
            return self._inner.decode(tokens, skip_special_tokens=True)

    def save(self, path: str | os.PathLike) -> Path:
        """Writes a file of the package `tokenizers`, which other programs read too, with a digest that they ignore."""
        description = json.loads(self._inner.to_str())
        # beside the entries of its model, where the package takes entries it does not know; nowhere else it does
        description["model"]["digest"] = digest_of({}, description)
        return write_atomically(_file(path), json.dumps(description, indent=2, ensure_ascii=False).encode())


def tokenizer_for(
    text: str | Sequence[str], size: int, kind: Literal["bpe", "characters"] = "bpe"
) -> BytePairs | Symbols:
    """A tokenizer of at most `size` tokens, the one that ends a text among them, trained on a text or several.

    kind : "bpe", byte-level pairs, at least 257 tokens (needs ``pip install 'sciops[text]'``), or "characters", the
        most frequent ones

    has ``encode(text)`` → (tokens,) int64, ``decode(tokens)`` → text without ends, ``len``, ``end``, ``save(folder)``

    Raises ValueError for a size or kind that is none, and a text without characters.
    """
    texts = [text] if isinstance(text, str) else list(text)
    if not any(texts):
        raise ValueError("the text has no characters: nothing to train a tokenizer on")
    if kind == "characters":
        if size < 3:
            raise ValueError(f"size={size}: expected at least 3, the end, one character and the unknown ones")
        counts = Counter(c for t in texts for c in t if c != UNKNOWN)
        kept = sorted(c for c, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: size - 2])
        return Symbols("".join(kept) + UNKNOWN)
    if kind != "bpe":
        raise ValueError(f"kind={kind!r}: expected 'bpe' or 'characters'")
    if size < 257:
        raise ValueError(f"size={size}: expected at least 257, 256 bytes and the end; or kind='characters'")
    package = _tokenizers()
    inner = package.Tokenizer(package.models.BPE())
    inner.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = package.decoders.ByteLevel()
    trainer = package.trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END],
        initial_alphabet=package.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(texts, trainer)
    return BytePairs(inner.to_str())


@within_budget
def load_tokenizer(path: str | os.PathLike, *, end: str = END, budget: Budget | None = None) -> BytePairs | Symbols:
    """The tokenizer that `save` wrote to a file or into a folder, or any of `tokenizers`' own JSON files.

    end : which token ends a text, of files that others wrote ("<|endoftext|>", "</s>")
    budget : of opening the file, as in `sciops.open_dataset`; 400 bytes count for every token and merged pair

    Raises FileNotFoundError, and ValueError in one line for a file that is not a tokenizer, changed since `save` wrote
    it, or takes more than its budget.
    """
    path = Path(path)
    path = path / FILE if path.is_dir() else path
    spent = Spending(check_regular(path, missing=" does not exist: expected a tokenizer that was saved"))
    with refusing(f"{path} is not JSON ({{error}}): expected a tokenizer that was saved", ValueError):
        description = read_text(path, spent)
        found = parse_json(description, source=path)
    if isinstance(found, dict) and not _is_as_written(found):
        raise ValueError(f"{path} changed since it was written: save the tokenizer again")
    characters = isinstance(found, dict) and found.get("kind") == "characters" and isinstance(found.get("symbols"), str)
    if not characters and not (isinstance(found, dict) and "model" in found):
        raise ValueError(f"{path} holds no tokenizer: expected the file of save, or one of the package tokenizers")
    _count(found, spent)
    with refusing(f"{path}: {{error}}", ValueError):
        made = Symbols(found["symbols"]) if characters else BytePairs(description, end=end)
    spent.take(what="its vocabulary")
    return made


def _is_as_written(found: dict[str, Any]) -> bool:
    """Whether a file with a digest, of either kind, is what `save` wrote; others have none."""
    if is_sealed(found):
        return is_whole(found)
    model = found.get("model")
    if not isinstance(model, dict) or "digest" not in model:
        return True
    rest = {name: value for name, value in model.items() if name != "digest"}
    return model["digest"] == digest_of({}, {**found, "model": rest})


def _count(found: dict[str, Any], spent: Spending) -> None:
    """Counts what the package makes of a description."""
    model = found.get("model")
    model = model if isinstance(model, dict) else {}
    held = [model.get("vocab"), found.get("added_tokens"), found.get("symbols")]
    tokens, pairs = (sum(len(one) for one in some if hasattr(one, "__len__")) for some in (held, [model.get("merges")]))
    spent.take(bytes=_OF_A_TOKEN * (tokens + pairs), what="its vocabulary")


def encode_documents(tokenizer: BytePairs | Symbols, texts: Iterable[str]) -> np.ndarray:
    """The texts one after another, each followed by the end: (tokens,) of the smallest of uint8, uint16 and uint32 that
    holds all tokens of the tokenizer."""
    kind = np.min_scalar_type(len(tokenizer) - 1)
    parts = [part.astype(kind) for text in texts for part in (tokenizer.encode(text), np.array([tokenizer.end]))]
    return np.concatenate(parts) if parts else np.zeros(0, kind)


def _file(path: str | os.PathLike) -> Path:
    path = Path(path)
    return path if path.suffix == ".json" else path / FILE


@contextmanager
def _in_one_line(what: str) -> Iterator[None]:
    """Around the package, which panics, and raises Exception itself."""
    with refusing(f"{what} ({{error}})"), panics_as_errors():
        yield


def _tokenizers() -> Any:
    try:
        import tokenizers
        import tokenizers.decoders
        import tokenizers.models
        import tokenizers.pre_tokenizers
        import tokenizers.trainers
    except ImportError:
        raise ImportError("byte pairs need the package tokenizers: pip install 'sciops[text]'") from None
    return tokenizers
