"""The task sets of the study: examples of every task for training and test, and what may explain interference."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from sciops.datasets import read_documents
from studies.interference.catalogues import family_of, lines_of, messages, script_of
from studies.interference.equations import EQUATIONS, operator_distances, pairs_of, single_waves
from studies.interference.grammars import LETTERS, same_part, written
from studies.kit.cells import read_arrays, write_arrays

SIDE = 4
"""Characters on either side of the one to guess."""

_RAREST = 30  # occurrences, over all languages, of a character with a number of its own
_LEAST = 20_000  # characters of every language, below which catalogues do not make a corpus
_TESTED = 4000  # characters to guess, of every language


@dataclass(frozen=True)
class TaskSet:
    """Tasks that share a model, as data.

    name : "languages", "equations", …
    kind : "text", contexts of characters and the character between them; or "fields", u(0) and u(T)
    names : of the tasks
    symbols : number of different characters; of fields 0
    digest : SHA-256 of all examples
    file : archive of the arrays x{k}, y{k} of task k and their tests, x_test{k}, y_test{k}
    source : what the examples are, in a few words
    predictors : name → (tasks, tasks) that may explain interference, as lists
    """

    name: str
    kind: str
    names: tuple[str, ...]
    symbols: int
    digest: str
    file: Path
    source: str
    predictors: dict[str, list[list[float]]]


def kept_tasks(
    folder: Path, name: str, kind: str, examples: Mapping[str, Sequence[np.ndarray]], *, symbols: int = 0, **about: Any
) -> TaskSet:
    """Writes the examples, task → (x, y, x_test, y_test), and describes them."""
    arrays = {
        f"{key}{k}": np.ascontiguousarray(array)
        for k, four in enumerate(examples.values())
        for key, array in zip(("x", "y", "x_test", "y_test"), four)
    }
    digest = hashlib.sha256()
    for key in sorted(arrays):
        digest.update(f"{key} {arrays[key].dtype.str} {arrays[key].shape}".encode() + arrays[key].tobytes())
    text = digest.hexdigest()
    path = folder / f"{name.replace(' ', '-')}_{text[:12]}.npz"
    if not path.exists():
        write_arrays(path, arrays)
    return TaskSet(name, kind, tuple(examples), symbols, text, path, **about)


@lru_cache(maxsize=4)
def read_examples(file: Path, tasks: int) -> list[tuple[np.ndarray, ...]]:
    """(x, y, x_test, y_test) of every task of an archive; do not write into them."""
    arrays = read_arrays(file)
    return [tuple(arrays[f"{key}{k}"] for key in ("x", "y", "x_test", "y_test")) for k in range(tasks)]


def language_tasks(folder: Path, texts: str, codes: Sequence[str], characters: int) -> TaskSet:
    """Languages: of catalogues, of text files in a folder, or synthetic ones where neither is there.

    texts : "auto", "catalogues", "synthetic" or a folder of NAME.txt
    characters : of each language, at most

    Raises ValueError for texts that are too short, FileNotFoundError for ones that are not there.
    """
    if texts == "synthetic":
        return grammar_tasks(folder, "languages", [f"{g}{a}" for g in "ABCD" for a in "12"], characters)
    if texts not in ("auto", "catalogues"):
        documents = read_documents(texts)
        corpus = lines_of((Path(name).stem, text) for name, text in documents.items())
        source = f"text files in {Path(texts).name}"
    else:
        try:
            corpus = messages(codes)
            _check_length(corpus)
        except (FileNotFoundError, ValueError):
            if texts == "catalogues":
                raise
            return language_tasks(folder, "synthetic", codes, characters)
        source = "translated messages of installed programs"
    _check_length(corpus)
    fewer = {code: _first(_mixed(lines), characters) for code, lines in corpus.items()}
    counts = Counter("".join("".join(lines) for lines in fewer.values()))
    known = ["\n", *sorted(character for character, count in counts.items() if count >= _RAREST)]
    number = {character: i for i, character in enumerate(known)}
    examples = {}
    for code, lines in fewer.items():
        cut = len(lines) - len(lines) // 7  # the last seventh is held out: the same messages in all languages
        parts = ("\n".join(part) for part in (lines[:cut], lines[cut:]))
        numbers = [np.array([number.get(c, len(known)) for c in text], dtype=np.uint16) for text in parts]
        examples[code] = (*_windows(numbers[0]), *_windows(numbers[1]))
    tested = min(_TESTED, *(len(four[3]) for four in examples.values()))
    examples = {code: (*four[:2], *_evenly(*four[2:], tested)) for code, four in examples.items()}
    shares = np.array([_shares("".join(lines), known) for lines in fewer.values()])
    scripts, families = ([f(one) for one in fewer] for f in (lambda c: script_of("".join(fewer[c])), family_of))
    about = f"{source}, {min(sum(map(len, lines)) for lines in fewer.values()):,} characters each or more"
    return kept_tasks(
        folder,
        "languages",
        "text",
        examples,
        symbols=len(known) + 1,
        source=about,
        predictors={
            "same script": _equal(scripts),
            "same family": _equal(families),
            "shared characters": np.minimum(shares[:, None], shares).sum(-1).tolist(),
        },
    )


def grammar_tasks(folder: Path, name: str, names: Sequence[str], characters: int) -> TaskSet:
    """Synthetic languages: "A1" has grammar A and alphabet 1; "A1 again" is another text of the same language."""
    examples = {}
    for sample, task in enumerate(names):
        text = written("ABCDEFGH".index(task[0]), int(task[1]) - 1, characters + characters // 5, sample=sample)
        numbers = text.astype(np.uint16)
        examples[task] = (
            *_windows(numbers[:characters]),
            *_evenly(*_windows(numbers[characters:]), min(_TESTED, characters // 10)),
        )
    return kept_tasks(
        folder,
        name,
        "text",
        examples,
        symbols=LETTERS * max(int(task[1]) for task in names),
        source=f"random chains of letters, {characters:,} characters each",
        predictors={
            "same script": same_part(names, 1).tolist(),
            "same family": same_part(names, 0).tolist(),
        },
    )


def equation_tasks(folder: Path, names: Sequence[str], points: int, train: int, test: int) -> TaskSet:
    """u(0) ↦ u(T) of equations in `EQUATIONS`."""
    examples = {}
    for k, name in enumerate(names):
        x, y = (part.astype(np.float32) for part in pairs_of(name, train + test, points, np.random.default_rng([3, k])))
        examples[name] = (x[:train], y[:train], x[train:], y[train:])
    distances = operator_distances(list(names), 32, points, np.random.default_rng(4))
    return kept_tasks(
        folder,
        "equations",
        "fields",
        examples,
        source=f"{points} points, {train} fields each",
        predictors={
            "same inputs": _equal([EQUATIONS[name].law for name in names]),
            "same class": _equal([EQUATIONS[name].family for name in names]),
            "operator distance": np.log(np.where(np.eye(len(names), dtype=bool), 1.0, distances)).tolist(),
        },
    )


def wave_tasks(folder: Path, wavenumbers: Sequence[int], points: int, train: int, test: int) -> TaskSet:
    """Advection by +1 and by −1 of waves of one wavenumber k, "+k" and "−k": where the answer is known exactly."""
    examples = {}
    for k in wavenumbers:
        for sign, speed in (("+", 1), ("−", -1)):
            rng = np.random.default_rng([5, k, speed + 1])
            x, y = (part.astype(np.float32) for part in single_waves(speed, k, train + test, points, rng))
            examples[f"{sign}{k}"] = (x[:train], y[:train], x[train:], y[train:])
    return kept_tasks(folder, "single waves", "fields", examples, source=f"{points} points", predictors={})


def _check_length(corpus: Mapping[str, Sequence[str]]) -> None:
    if len(corpus) < 2:
        raise ValueError(f"texts in {len(corpus)} languages: expected at least two, a file NAME.txt each")
    code, least = min(((code, sum(map(len, lines))) for code, lines in corpus.items()), key=lambda item: item[1])
    if least < _LEAST:
        raise ValueError(f"{code}: {least:,} characters of text after cleaning, expected at least {_LEAST:,}")


def _mixed(lines: Sequence[str]) -> list[str]:
    """The lines in an order that is the same for all texts of as many lines."""
    return [lines[i] for i in np.random.default_rng(6).permutation(len(lines))]


def _first(lines: Sequence[str], characters: int) -> list[str]:
    """The first lines, of at least as many characters where there are."""
    ends = np.cumsum([len(line) + 1 for line in lines])
    return list(lines[: int(np.searchsorted(ends, characters)) + 1])


def _windows(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(contexts (n, 2 SIDE), characters between (n,))."""
    views = np.lib.stride_tricks.sliding_window_view(numbers, 2 * SIDE + 1)
    return np.delete(views, SIDE, axis=1), views[:, SIDE]


def _evenly(x: np.ndarray, y: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    rows = np.linspace(0, len(x) - 1, count).astype(int)
    return x[rows], y[rows]


def _shares(text: str, known: Sequence[str]) -> list[float]:
    counts = Counter(text)
    return [counts[character] / max(1, len(text)) for character in known]


def _equal(labels: Sequence[str]) -> list[list[float]]:
    return [[float(a == b) for b in labels] for a in labels]
