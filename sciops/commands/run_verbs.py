"""`sciops report` and `compare`: the verbs that take the folders of runs."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated, Any

import tyro

from sciops.commands.command_line import parse

_Runs = Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUN RUN [RUN ...]", help_behavior_hint="(at least two)")]


def report(rest: list[str]) -> None:
    """Writes the page of a run or study."""

    def report(folder: tyro.conf.Positional[Path], output: Path | None = None, open: bool = False) -> dict[str, Any]:
        """Writes one HTML page of a run: its answer, tables, figures, configuration, and how to repeat it.

        Args:
            folder: a run of `sciops train`, or the output of a study, of `sciops demo` or `sciops benchmark`
            output: the file to write; report.html in the folder by default
            open: show it in the browser
        """
        return locals()

    asked = parse(report, rest, prog="sciops report")
    from sciops import reports

    path = reports.report(asked["folder"], asked["output"])
    print(f"wrote {path} ({path.stat().st_size / 1e3:,.0f} kB)")
    if asked["open"]:
        webbrowser.open(path.resolve().as_uri())


def compare(rest: list[str]) -> None:
    """Prints trained runs side by side."""

    def compare(runs: tyro.conf.Positional[_Runs], output: Path | None = None) -> dict[str, Any]:
        """Trained runs side by side: what their configurations differ in, errors, size, time, and a paired verdict.

        Runs that differ in their seed alone count as trainings of one model. The verdict is about errors of the same
        test fields; it needs five seeds of each.

        Args:
            runs: folders of `sciops train`
            output: also write an HTML page
        """
        return locals()

    asked = parse(compare, rest, prog="sciops compare")
    if len(asked["runs"]) < 2:
        raise ValueError(f"sciops compare needs two or more runs, got {len(asked['runs'])}: name their folders")
    from sciops import reports

    comparison = reports.compare(asked["runs"])
    print("\n".join(comparison.lines()))
    if asked["output"] is not None:
        print(f"wrote {comparison.write(asked['output'])}")
