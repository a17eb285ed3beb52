"""The `sciops` command: one verb a job.

sciops generate NAME …   make a dataset (data_gen/NAME.py)
sciops info FILE         what a file is and holds
sciops validate FILE     what is wrong with it
sciops convert SRC DST --layout NAME
sciops doctor [FILE]     what this machine offers, what a file is, which command fits
sciops download NAME     fetch a public data set, or list them
sciops train …           train an operator (studies/train.py)
sciops study NAME …      run a study (studies/NAME.py)
sciops demo              data, training and the resolution-shift study, small, in a few minutes

Every verb answers --help.
"""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sciops._command import command, guarded, parse


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the console script; `arguments` default to the process's own."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        print(__doc__)
        return
    if words[0] == "--version":
        print(importlib.import_module("sciops").__version__)
        return
    verb, rest = words[0], words[1:]
    guarded(lambda: _verb(verb)(rest))


def _verb(name: str) -> Callable[[list[str]], None]:
    verbs = {
        "generate": lambda rest: _by_name("data_gen", "generate", rest),
        "study": lambda rest: _by_name("studies", "study", rest),
        "train": lambda rest: _run_module("studies.train", "sciops train", rest),
        "info": _info,
        "validate": _validate,
        "convert": _convert,
        "doctor": _doctor,
        "download": _download,
        "demo": _demo,
    }
    if name not in verbs:
        raise ValueError(f"sciops {name}: expected one of {', '.join(verbs)}; sciops --help describes them")
    return verbs[name]


def _by_name(package: str, verb: str, rest: list[str]) -> None:
    names = sorted(m.name for m in pkgutil.iter_modules(importlib.import_module(package).__path__) if m.name[0] != "_")
    if not rest or rest[0] in ("-h", "--help"):
        print(f"sciops {verb} NAME …   with NAME one of: {', '.join(names)}")
        return
    if rest[0] not in names:
        raise ValueError(f"sciops {verb} {rest[0]}: expected one of {', '.join(names)}")
    _run_module(f"{package}.{rest[0]}", f"sciops {verb} {rest[0]}", rest[1:])


def _run_module(module: str, prog: str, rest: list[str]) -> None:
    loaded = importlib.import_module(module)
    command(loaded.run, loaded.PRESETS, rest, prog=prog)


def _info(rest: list[str]) -> None:
    import tyro

    def info(path: tyro.conf.Positional[Path]) -> Path:
        """What a file is: layout, fields, grid, splits, and what to do with it next.

        Args:
            path: a file of any known layout, or a folder of such files
        """
        return path

    from sciops import datasets

    print(datasets.describe(parse(info, rest, prog="sciops info")))


def _validate(rest: list[str]) -> None:
    import tyro

    def validate(path: tyro.conf.Positional[Path]) -> Path:
        """What is wrong with a file, a line a finding; status 1 when there is an error among them.

        Args:
            path: a file of any known layout, or a folder of such files
        """
        return path

    from sciops import datasets

    path = parse(validate, rest, prog="sciops validate")
    findings = datasets.validate(path)
    for finding in findings:
        print(finding)
    if not findings:
        print(f"{path}: sound")
    if any(finding.severity == "error" for finding in findings):
        sys.exit(1)


def _convert(rest: list[str]) -> None:
    import tyro

    def convert(
        source: tyro.conf.Positional[Path],
        destination: tyro.conf.Positional[Path],
        layout: str,
        resolution: int | None = None,
        split: str | None = None,
        overwrite: bool = False,
    ) -> dict[str, Any]:
        """Writes a file again in another layout; what that layout cannot hold is refused.

        Args:
            source: a file of any known layout; it is not changed
            destination: the file to write
            layout: the layout to write; `sciops convert --help` names them all below
            resolution: points per axis, for sources that hold or nest several grids; else the finest (native: all)
            split: train, validation or test: these samples alone
            overwrite: replace a destination that exists
        """
        return locals()

    from sciops import datasets

    known = f"{(convert.__doc__ or '').split('Args:')[0].strip()}\n\nLayouts: {', '.join(datasets.WRITERS)}."
    print(f"wrote {datasets.convert(**parse(convert, rest, prog='sciops convert', description=known))}")


def _doctor(rest: list[str]) -> None:
    import tyro

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


def _download(rest: list[str]) -> None:
    import tyro

    def download(
        name: tyro.conf.Positional[str | None] = None,
        files: tyro.conf.Positional[tuple[str, ...]] = (),
        folder: Path | None = None,
        list: bool = False,
    ) -> dict[str, Any]:
        """Fetches a public data set, checked by its hash and resumed where it broke off; without a name, lists them.

        Args:
            name: a set of the list
            files: names in the set; all of them where none is given
            folder: where to put them; default $SCIOPS_DATA or the user's cache
            list: show the files of the set instead of fetching them
        """
        return locals()

    from sciops import datasets

    asked = parse(download, rest, prog="sciops download")
    sets = datasets.public_sets()
    if asked["name"] is None:
        for one in sets.values():
            print(f"{one.name:32s} {len(one.files):4d} files  {one.about}")
        return
    if asked["list"] and asked["name"] in sets:
        one = sets[asked["name"]]
        print(f"{one.about}\n{one.page}\nlayout {one.layout}" + (f"\nthe same law: {one.recipe}" if one.recipe else ""))
        for file in one.files.values():
            print(f"  {file.name}  {file.hash or 'no published hash'}")
        return
    for path in datasets.fetch(asked["name"], asked["files"] or None, folder=asked["folder"]):
        print(path)


def _demo(rest: list[str]) -> None:
    def demo(output: Path = Path("runs/demo")) -> Path:
        """Generates paired Darcy fields, trains fno and mano, asks what happens on another grid; a few minutes.

        Args:
            output: folder of the dataset, the models, the figures and report.md
        """
        return output

    study = importlib.import_module("studies.resolution_shift")
    study.run(replace(study.PRESETS["quick"], output=parse(demo, rest, prog="sciops demo")))


if __name__ == "__main__":
    main()
