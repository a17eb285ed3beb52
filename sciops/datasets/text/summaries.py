"""Texts with summaries that are on a machine already: Debian's package descriptions, docstrings of Python packages."""

from __future__ import annotations

import ast
import importlib.util
import random
import re
import subprocess
import sysconfig
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sciops.datasets.text.docstrings import cleaned
from sciops.datasets.text.words import words
from sciops.files.budget import OverBudget, Spending
from sciops.files.untrusted import check_regular

__all__ = ["Summarised", "SummarySplit", "docstrings", "package_descriptions", "split_summaries", "without_repeats"]

STATUS, LISTS = Path("/var/lib/dpkg/status"), Path("/var/lib/apt/lists")
APT_HELPER = Path("/usr/lib/apt/apt-helper")
_PIECE = 1 << 20  # bytes
_TESTS = {"test", "tests", "testing", "_tests", "idlelib", "lib2to3", "site-packages", "__pycache__"}


class Summarised(NamedTuple):
    """text : paragraphs on lines of their own. summary : one line, not in the text. group : what it must not be parted
    from in a split, a source package or module."""

    text: str
    summary: str
    group: str


class SummarySplit(NamedTuple):
    """Lists of `Summarised`; `left_out` are those of the held-out groups whose summary stands in a training text."""

    train: list[Summarised]
    validation: list[Summarised]
    test: list[Summarised]
    left_out: list[Summarised]


def package_descriptions(
    status: str | Path = STATUS, lists: str | Path = LISTS, *, least: tuple[int, int] = (20, 3)
) -> list[Summarised]:
    """Long descriptions of Debian packages with the short ones as their summaries, grouped by source package.

    status : dpkg's file, which has the installed packages
    lists : apt's folder; its files *_Translation-en, compressed or not, have all packages there are. Many a container
        leaves them out: ``apt-get update -o Acquire::Languages=en`` brings them
    least : words of a text and of a summary

    Raises FileNotFoundError where neither is there.
    """
    status, lists = Path(status), Path(lists)
    translations = [(path, "Description-en") for path in sorted(lists.glob("*_Translation-en*"))]
    found = ([(status, "Description")] if status.exists() else []) + translations
    if not found:
        raise FileNotFoundError(f"{status} and {lists}/*_Translation-en: neither is here; they are a Debian system's")
    described = [(stanza, field) for path, field in found for stanza in _stanzas(_read(path)) if field in stanza]
    sources: dict[str, str] = {}
    if translations:
        for path in sorted(lists.glob("*_Packages*")):
            sources |= {s["Package"]: s["Source"] for s in _stanzas(_read(path)) if "Source" in s}
    pairs = []
    for stanza, field in described:
        short, _, long = stanza[field].partition("\n")
        name = stanza["Package"]
        source = (stanza.get("Source") or sources.get(name, name)).split()[0]
        pairs.append(Summarised(_flowing(long), short.strip(), f"debian/{source}"))
    return without_repeats(_long_enough(pairs, least))


def docstrings(
    packages: Sequence[str] = ("python",), *, least: tuple[int, int] = (20, 3), most: int = 30
) -> list[Summarised]:
    """Docstrings of modules, classes and functions: the first paragraph as the summary of the rest, grouped by module.

    packages : "python", the standard library, or names of installed packages, whose files are parsed and never run
    least : words of a text and of a summary; most : words of a summary

    Doctests, tables, directives and markup are taken out; private parts are read, tests are not.

    Raises ValueError for a package that is not there.
    """
    pairs = []
    for package in packages:
        root = _root(package)
        for path in sorted(root.rglob("*.py")):
            inside = path.relative_to(root).with_suffix("").parts
            if _TESTS.isdisjoint(inside[:-1]) and not inside[-1].startswith("test"):
                group = ".".join((package, *(part for part in inside if part != "__init__")))
                pairs += [Summarised(text, summary, group) for text, summary in _documented(path)]
    kept = [pair for pair in _long_enough(pairs, least) if len(words(pair.summary)) <= most]
    return without_repeats(kept)


def without_repeats(pairs: Iterable[Summarised]) -> list[Summarised]:
    """The pairs whose text and whose summary are the first of their words."""
    texts, summaries, kept = set(), set(), []
    for pair in pairs:
        text, summary = tuple(words(pair.text)), tuple(words(pair.summary))
        if text not in texts and summary not in summaries:
            kept.append(pair)
        texts.add(text)
        summaries.add(summary)
    return kept


def split_summaries(pairs: Sequence[Summarised], *, held_out: float = 0.1, seed: int = 0) -> SummarySplit:
    """Whole groups for training, validation and test, the latter of the share `held_out` of the pairs each.

    No summary of validation and test stands, word for word, in a text or summary of training: those that would are left
    out. Raises ValueError for a share outside 0 < held_out < 1/2 and where a part would be empty.
    """
    if not 0 < held_out < 0.5:
        raise ValueError(f"held_out={held_out}: expected a share between 0 and 1/2")
    groups = defaultdict(list)
    for pair in pairs:
        groups[pair.group].append(pair)
    names = sorted(groups)
    random.Random(seed).shuffle(names)
    parts: tuple[list[Summarised], ...] = ([], [], [])
    for name in names:
        want = held_out * len(pairs)
        part = 2 if len(parts[2]) < want else 1 if len(parts[1]) < want else 0
        parts[part].extend(groups[name])
    train, *others = parts
    known = _contained([p.summary for part in others for p in part], (f"{p.summary}\n{p.text}" for p in train))
    validation, test = ([p for p in part if tuple(words(p.summary)) not in known] for part in others)
    left_out = [p for part in others for p in part if tuple(words(p.summary)) in known]
    if not (train and validation and test):
        raise ValueError(
            f"{len(pairs)} pairs in {len(groups)} groups with held_out={held_out} give {len(train)} for training, "
            f"{len(validation)} and {len(test)}: expected some of each"
        )
    return SummarySplit(train, validation, test, left_out)


def _contained(summaries: Iterable[str], texts: Iterable[str]) -> set[tuple[str, ...]]:
    """The summaries, as words, that stand in one of the texts."""
    starting: defaultdict[tuple[str, ...], set[tuple[str, ...]]] = defaultdict(set)
    known: set[tuple[str, ...]] = set()
    for summary in summaries:
        of_summary = tuple(words(summary))
        starting[of_summary[:2]].add(of_summary)
    for text in texts:
        of_text = words(text)
        known.update(one for word in of_text if (one := (word,)) in starting)
        for i, start in enumerate(zip(of_text, of_text[1:])):
            for candidate in starting.get(start, ()):
                if tuple(of_text[i : i + len(candidate)]) == candidate:
                    known.add(candidate)
    return known


def _long_enough(pairs: Iterable[Summarised], least: tuple[int, int]) -> list[Summarised]:
    if min(least) < 2:
        raise ValueError(f"least={least}: expected at least 2 words of a text and of a summary")
    return [p for p in pairs if len(words(p.text)) >= least[0] and len(words(p.summary)) >= least[1]]


def _read(path: Path) -> str:
    """An index of apt's, which may be packed in ways that its own helper knows."""
    if path == STATUS or not APT_HELPER.exists() or path.suffix not in (".lz4", ".xz", ".gz", ".bz2", ".zst"):
        return check_regular(path).read_text(encoding="utf-8", errors="replace")
    spent, parts = Spending(check_regular(path)), []
    with subprocess.Popen([str(APT_HELPER), "cat-file", str(path)], stdout=subprocess.PIPE) as helper:
        assert helper.stdout is not None
        try:
            while part := helper.stdout.read(_PIECE):
                spent.take(bytes=5 * len(part), what="its unpacked text")  # as bytes, and up to four a character
                parts.append(part)
        except OverBudget:
            helper.kill()
            raise
    if helper.returncode:
        raise ValueError(f"{path} cannot be unpacked: {APT_HELPER} ended with status {helper.returncode}")
    return b"".join(parts).decode("utf-8", errors="replace")


def _stanzas(text: str) -> Iterator[dict[str, str]]:
    """The records of a file of Debian's: field → value, with its further lines as they are."""
    for block in text.split("\n\n"):
        fields: dict[str, str] = {}
        name = ""
        for line in block.split("\n"):
            if line[:1].isspace():
                fields[name] = fields.get(name, "") + "\n" + line
            elif ":" in line:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
        if "Package" in fields:
            yield fields


def _flowing(long: str) -> str:
    """Paragraphs of a long description on a line each; lines set off by more than one space, and points, stay lines."""
    lines: list[str] = []
    joined = False
    for line in long.split("\n"):
        if line.strip() in ("", "."):
            joined = False
            continue
        own = line.startswith("  ") and not (joined and lines[-1].startswith(("-", "*", "+", "•")))
        point = re.match(r"\s+[-*+•]\s", line)
        if joined and not own and not point:
            lines[-1] += " " + line.strip()
        else:
            lines.append(line.strip())
        joined = True
    return "\n".join(re.sub(r"^[-*+•]+\s+", "", line) for line in lines if words(line))


def _root(package: str) -> Path:
    if package == "python":
        return Path(sysconfig.get_paths()["stdlib"])
    found = importlib.util.find_spec(package) if package.isidentifier() else None
    if found is None or not found.origin or not found.submodule_search_locations:
        raise ValueError(f"package {package!r} is not installed: expected 'python' or names of packages that are")
    return Path(found.origin).parent


def _documented(path: Path) -> Iterator[tuple[str, str]]:
    """(text, summary) of the docstrings of a file; none of one that this Python cannot parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes in other people's strings
            tree = ast.parse(check_regular(path).read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two of expressions nested too deep
        return
    for node in _definitions(tree):
        docstring = ast.get_docstring(node)
        pair = cleaned(docstring) if docstring else None
        if pair:
            yield pair


def _definitions(tree: ast.Module) -> Iterator[Any]:
    """The module, and the classes and functions in it, in the order of the file; expressions are not entered."""
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
        for field in ("cases", "finalbody", "orelse", "handlers", "body"):
            waiting.extend(reversed(getattr(node, field, None) or ()))
