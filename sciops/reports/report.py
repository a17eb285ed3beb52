"""The report of a run or a study as one page: answer, tables, figures, and all that is needed to repeat it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sciops.reports.markdown import read_markdown
from sciops.reports.page import write
from sciops.reports.parts import Code, Facts, Figure, Part, Section, text_of
from sciops.reports.records import record_table, tables_in
from sciops.reports.run_files import RunFiles, described, read_run
from sciops.reports.tables import Table
from sciops.reports.training import training_answer, training_sections, training_title

# lists in the results of studies that answer by themselves: name, what a row is called, whether it holds, in words
_HOLD = (
    ("targets", "what", "met", "met"),
    ("checks", "what", "met", "met"),
    ("claims", "claim", "seen", "seen"),
)
_WRONG = ("faults", "findings")  # lists that are empty where all is well


def report(folder: str | os.PathLike[str], output: str | os.PathLike[str] | None = None) -> Path:
    """Writes the report of a run or a study as one self-contained HTML page.

    Parameters
    ----------
    folder : path
        A run of ``sciops train`` or ``fit``, or the output of a study or of ``sciops demo``.
    output : path, optional
        The file to write; report.html in the folder by default.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    OSError, ValueError
        In one line: the folder is not that of a run, or a file in it is damaged.
    """
    files = read_run(folder)
    path = Path(output) if output is not None else files.path / "report.html"
    title, answer, sections = contents(files)
    return write(path, title, answer, sections, subtitle=_subtitle(files))


def contents(files: RunFiles) -> tuple[str, str, list[Section]]:
    """(title, answer, sections) of the page of a run."""
    if files.is_training:
        title, answer, found = training_title(files), training_answer(files), list(training_sections(files))
        main, after = found[:-1], found[-1:]
    elif files.results is None:
        title, answer, main, after = f"Run {files.name}", described(files), [], _progress(files)
    else:
        title, answer, main = _of_study(files)
        after = [Section("All numbers", tables_in(files.results, leave_out=("answer",)), folded=True)]
    return title, answer, [*main, *_figures(files, main), *after, *_provenance(files)]


def _of_study(files: RunFiles) -> tuple[str, str, list[Section]]:
    """(title, answer, what the study printed or wrote) of its folder."""
    results = files.results if isinstance(files.results, Mapping) else {}
    asked = text_of(files.environment.get("about") or "").strip("–")
    answer = str(files.summary.get("answer") or results.get("answer") or "")
    title = str(files.summary.get("title") or (f"Study {files.study}" if files.study else f"Run {files.name}"))
    if files.text:
        named, sections = read_markdown(files.text, files.path)
        opening = sections[0].parts if sections and not sections[0].title else ()
        if opening and isinstance(opening[0], str):  # a report opens with its answer
            answer = answer or opening[0]
            if answer == opening[0]:
                sections[0] = Section("", opening[1:])
        title = named or title
        main = [Section(one.title or "About", one.parts) for one in sections if one.parts]
    else:
        blocks = _blocks(files.summary)
        main = [Section("Results", blocks)] if blocks else []
    if asked:
        main = [Section("Question", [asked]), *main]
    return title, answer or _met(results) or _unanswered(files, asked), main


def _met(results: Mapping[str, Any]) -> str:
    """How many of a study's targets, checks or claims hold and which do not, or how many faults it found."""
    for name, what, holds, word in _HOLD:
        given = results.get(name)
        rows = [row for row in given if isinstance(row, Mapping)] if isinstance(given, list) else []
        rows = [row for row in rows if isinstance(row.get(holds), bool)]  # None: not tested in this run
        if rows:
            others = [text_of(row.get(what)) for row in rows if not row[holds]]
            said = f"{len(rows) - len(others)} of {len(rows)} {name} are {word}"
            return said + (f"; not {word}: {'; '.join(others)}." if others else ".")
    for name in _WRONG:
        if isinstance(results.get(name), list):
            found = results[name]
            return f"{len(found)} {name}: {text_of(found)}." if found else f"No {name}: all is as it should be."
    return ""


def _unanswered(files: RunFiles, asked: str) -> str:
    what = f"This study asks: {asked.rstrip('.')}. It" if asked else "This study"
    where = "its tables are below" if _blocks(files.summary) or files.text else "its numbers are below"
    return f"{what} states no answer of its own; {where}."


def _blocks(summary: Mapping[str, Any]) -> list[Part]:
    """What a study printed: text as it was, tables that sort."""
    parts: list[Part] = []
    for block in _list(summary.get("blocks")):
        if isinstance(block, str) and block.strip("\n "):
            parts.append(Code(block))
        elif isinstance(block, Mapping):
            rows, columns = block.get("rows"), block.get("columns")
            if isinstance(rows, list) and isinstance(columns, list):
                cells = (
                    ([*map(str, row), *[""] * len(columns)])[: len(columns)] for row in rows if isinstance(row, list)
                )
                title, note = str(block.get("title") or ""), str(block.get("note") or "")
                parts.append(Table(tuple(map(str, columns)), tuple(map(tuple, cells)), title, note))
    return parts


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _progress(files: RunFiles) -> list[Section]:
    return [Section("Epochs", [record_table(files.history)])] if files.history else []


def _figures(files: RunFiles, shown: list[Section]) -> list[Section]:
    """The pictures that no section shows yet; those that the study named and that are not there are named too."""
    there = {part.source.resolve() for section in shown for part in section.parts if isinstance(part, Figure)}
    named = [files.path / "figures" / Path(str(name)).name for name in _list(files.summary.get("figures"))]
    every = list(dict.fromkeys([*(path for path in named if not path.exists()), *files.figures]))
    parts = [Figure(path) for path in every if path.resolve() not in there]
    return [Section("Figures", parts)] if parts else []


def _provenance(files: RunFiles) -> list[Section]:
    """The command, seeds and data; configuration, environment and papers behind a fold."""
    facts = {
        "seeds": files.environment.get("seeds"),
        "written": files.environment.get("time"),
        "folder": str(files.path),
    }
    facts |= {f"SHA-256 of {path}": value for path, value in files.data.items()}
    parts: list[Part] = [Code(files.command, wrap=True)] if files.command else ["No command line is recorded."]
    parts.append(Facts({name: value for name, value in facts.items() if value not in (None, [])}))
    sections = [Section("Repeat it", parts)]
    if files.config:
        sections.append(Section("Configuration", [Facts(files.config)], folded=True))
    if files.environment:
        about = {k: v for k, v in files.environment.items() if k not in ("command", "data", "seeds", "time", "about")}
        sections.append(Section("Environment", [Facts(about)], folded=True))
    if files.bibliography.strip():
        sections.append(Section("Papers to cite", [Code(files.bibliography)], folded=True))
    return sections


def _subtitle(files: RunFiles) -> str:
    when = str(files.environment.get("time", ""))[:10]
    kind = "Training run" if files.is_training else f"Study {files.study}" if files.study else "Run"
    return f"{kind}, {when}" if when else kind
