"""`sciops info`, `validate`, `convert` and `doctor`: the verbs that take files."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from sciops.commands.command_line import parse

_Paths = Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE [FILE ...]", help_behavior_hint="(at least one)")]


def info(rest: list[str]) -> None:
    """Prints what files are and hold."""

    def info(paths: tyro.conf.Positional[_Paths], hash: bool = False, json: bool = False) -> dict[str, Any]:
        """What files are: layout, fields, grid, splits, and what to do with them next.

        Args:
            paths: files of any known layout, or folders of such files; the folder of a run or of a model; zoo:NAME
            hash: also the sha256 of what each file holds, for `sciops validate --hash`; reads all of it
            json: one JSON object a file, one a line, for other programs
        """
        return locals()

    from sciops import datasets
    from sciops.files.json_files import plain
    from sciops.files.whole_files import is_store
    from sciops.runs import is_run
    from sciops.trained.description import describe_run, facts_of
    from sciops.zoo import has_card, read_card, resolved

    asked = parse(info, rest, prog="sciops info")

    def tell(path: Path) -> bool:
        if has_card(path):
            print(json.dumps(asdict(read_card(path))) if asked["json"] else read_card(path).text())
            return True
        if is_run(path):
            print(json.dumps(plain(facts_of(path))) if asked["json"] else describe_run(path))
            return True
        if asked["json"]:
            print(json.dumps(datasets.inventory(path, hashed=asked["hash"])))
            return True
        print(datasets.describe(path))
        if asked["hash"] and (path.is_file() or is_store(path)):
            print(f"sha256       {datasets.content_hash(path)}")
        return True

    _each([resolved(path) for path in asked["paths"]], "info", tell, apart=not asked["json"])


def validate(rest: list[str]) -> None:
    """Prints what is wrong with files; status 1 for an error among them."""

    def validate(
        paths: tyro.conf.Positional[_Paths],
        hash: str | None = None,
        solutions: int = 4,
        json: bool = False,
    ) -> dict[str, Any]:
        """What is wrong with files, a line a finding; status 1 when there is an error among them.

        Args:
            paths: files of any known layout, or folders of such files
            hash: what `sciops info --hash` gave when the file was right, or its first digits: finds any number that
                has changed since
            solutions: how many samples per grid to solve again and compare, spread over the file
            json: one JSON object a file, one a line, for other programs
        """
        return locals()

    from sciops import datasets

    asked = parse(validate, rest, prog="sciops validate")
    if asked["solutions"] < 0:
        raise ValueError(f"--solutions {asked['solutions']}: expected 0 or more")
    if asked["hash"] is not None and len(asked["paths"]) > 1:
        raise ValueError("--hash is of one file: name that one alone")

    def tell(path: Path) -> bool:
        findings = datasets.validate(path, solutions=asked["solutions"], expected_hash=asked["hash"])
        if asked["json"]:
            print(json.dumps({"path": str(path), "findings": [vars(finding) for finding in findings]}))
        else:
            several = f"{path}: " if len(asked["paths"]) > 1 else ""
            for finding in findings:
                print(f"{several}{finding}")
            if not findings:
                print(f"{path}: sound")
        return not any(finding.severity == "error" for finding in findings)

    _each(asked["paths"], "validate", tell)


def convert(rest: list[str]) -> None:
    """Writes a file in another layout."""

    def convert(
        source: tyro.conf.Positional[Path],
        destination: tyro.conf.Positional[Path],
        layout: str,
        resolution: tuple[int, ...] | None = None,
        split: str | None = None,
        dtype: Literal["float32", "float64"] | None = None,
        phases: tuple[float, float] | None = None,
        without: tuple[str, ...] = (),
        overwrite: bool = False,
    ) -> dict[str, Any]:
        """Writes a file again in another layout; what that layout cannot hold is refused.

        Args:
            source: a file of any known layout; it is not changed
            destination: the file to write
            layout: the layout to write; `sciops convert --help` names them all below
            resolution: points per axis, for sources that hold or nest several grids; else the finest (native: all)
            split: train, validation or test: these samples alone
            dtype: cast the fields, and say what that loses; else they are kept bit for bit
            phases: the low and the high value of a coefficient that only tells two phases apart
            without: variables and constants to leave out, time among them
            overwrite: replace a destination that exists
        """
        return locals()

    from sciops import datasets

    known = f"{(convert.__doc__ or '').split('Args:')[0].strip()}\n\nLayouts: {', '.join(datasets.WRITERS)}."
    asked = parse(convert, rest, prog="sciops convert", description=known)
    shape = asked.pop("resolution")
    asked["resolution"] = shape[0] if shape is not None and len(shape) == 1 else shape
    print(f"wrote {datasets.convert(**asked, told=print)}")


def doctor(rest: list[str]) -> None:
    """Prints what this machine offers and what files are."""

    def doctor(path: tyro.conf.Positional[Path | None] = None) -> Path | None:
        """What this machine offers; of a file, what it is and which command fits. Status 1 when it cannot be opened.

        Args:
            path: a file or folder to look at
        """
        return path

    from sciops.doctor import doctor as examine

    report, well = examine(parse(doctor, rest, prog="sciops doctor"))
    print(report)
    if not well:
        sys.exit(1)


def _each(paths: Sequence[Path], verb: str, tell: Callable[[Path], bool], *, apart: bool = False) -> None:
    """Tells of every path; the process ends with status 2 when one could not be read, else 1 when one is not well."""
    if not paths:
        raise ValueError(f"sciops {verb} needs a file or folder; sciops {verb} --help tells more")
    well, read = True, True
    for i, path in enumerate(paths):
        if i and apart:
            print()
        try:
            well &= tell(path)
        except (OSError, ValueError, ImportError) as error:
            if len(paths) == 1:
                raise
            print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
            read = False
    if not (read and well):
        sys.exit(1 if read else 2)
