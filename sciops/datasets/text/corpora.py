"""Texts: files and folders of them, real ones that are on many a machine, and sequences of characters of a text."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sciops.files import untrusted
from sciops.files.budget import Budget, within_budget
from sciops.files.untrusted import check_regular

__all__ = ["CORPORA", "Characters", "characters", "read_corpus", "read_documents", "read_text"]

HANDBOOK = Path("/usr/share/doc/debian-handbook/html/en-US")
CORPORA = {
    "bible": "King James Bible, 4.2 MB (apt-get install bible-kjv)",
    "handbook": "The Debian Administrator's Handbook (apt-get install debian-handbook)",
    "python": "the reference texts of Python's own help(), 0.7 MB, always there",
}


def read_corpus(name: str) -> str:
    """The text called `name` in `CORPORA`, without markup.

    Raises ValueError for another name; FileNotFoundError, with the command that installs it, where it is not there.
    """
    if name not in CORPORA:
        raise ValueError(f"corpus {name!r}: expected one of {', '.join(CORPORA)}")
    if name == "python":
        from pydoc_data.topics import topics

        return "\n".join(topics[key] for key in sorted(topics))
    if name == "bible":
        if shutil.which("bible") is None:
            raise FileNotFoundError("the program bible is not here: apt-get install bible-kjv")
        verses = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], capture_output=True, text=True, check=True).stdout
        return re.sub(r"^\S+ ", "", verses, flags=re.MULTILINE)  # without the names of the verses
    pages = sorted(HANDBOOK.glob("*.html"))
    if not pages:
        raise FileNotFoundError(f"{HANDBOOK} has no pages: apt-get install debian-handbook")
    return "\n".join(_plain(page.read_text(encoding="utf-8")) for page in pages)


@within_budget
def read_text(path: str | os.PathLike, *, budget: Budget | None = None) -> str:
    """The text of a UTF-8 file, without a byte order mark; `budget` as in `sciops.open_dataset`.

    Raises FileNotFoundError, and ValueError for a file that is not UTF-8, naming the first byte that is not.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder: expected a text file; read_documents reads folders")
    check_regular(path, missing=" does not exist: expected a text file")
    try:
        return untrusted.read_text(path)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 text: byte {error.start} is 0x{error.object[error.start]:02x}; convert it "
            f"(iconv -f ENCODING -t UTF-8)"
        ) from None


def read_documents(path: str | os.PathLike, *, pattern: str = "*.txt", budget: Budget | None = None) -> dict[str, str]:
    """name → text of a text file, or of every file below a folder that `pattern` names, in the order of their names.

    budget : of each file, as in `sciops.open_dataset`; how many there are is not limited

    Raises FileNotFoundError where there is none, ValueError for one that is not UTF-8.
    """
    path = Path(path)
    if not path.is_dir():
        return {path.name: read_text(path, budget=budget)}
    files = sorted(file for file in path.rglob(pattern) if file.is_file())
    if not files:
        raise FileNotFoundError(f"{path} has no files {pattern}: pass pattern, such as '*.md'")
    return {file.relative_to(path).as_posix(): read_text(file, budget=budget) for file in files}


@dataclass(frozen=True)
class Characters:
    """A text in numbers: its symbols in order, and three parts of it, each (length,) uint8 or uint16."""

    symbols: str
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def characters(text: str, *, held_out: float = 0.05, rarest: int = 20) -> Characters:
    """The text as numbers; its last parts of the share `held_out` each are for validation and test.

    rarest : symbols seen less often are one symbol, "\\ufffd"

    Raises ValueError for a text too short to be divided.
    """
    if not 0 < held_out < 0.5 or int(len(text) * held_out) < 1:
        raise ValueError(f"{len(text)} characters, held_out={held_out}: expected a longer text and a share below 1/2")
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    found, inverse, counts = np.unique(points, return_inverse=True, return_counts=True)
    kept = counts >= rarest
    symbols = "".join(map(chr, found[kept])) + ("" if kept.all() else "\ufffd")
    number = np.where(kept, np.cumsum(kept) - 1, kept.sum())
    codes = number[inverse].astype(np.uint8 if len(symbols) <= 256 else np.uint16)
    size = int(len(codes) * held_out)
    return Characters(symbols, codes[: -2 * size], codes[-2 * size : -size], codes[-size:])


def _plain(page: str) -> str:
    body = re.sub(r"(?s)<(script|style|head)\b.*?</\1>", " ", page)
    return re.sub(r"\s*\n\s*", "\n", html.unescape(re.sub(r"<[^>]+>", "", body))).strip()
