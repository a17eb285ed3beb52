"""The `sciops` command: one verb a job.

Data
  sciops generate NAME …   make a dataset; without a name, lists the equations
  sciops info FILE|RUN …   what files are and hold, what a run trained on what
  sciops validate FILE …   what is wrong with them; status 1 when something is
  sciops convert SRC DST --layout NAME
  sciops download NAME     fetch a public data set, or list them
Models
  sciops train …           train an operator (studies/train)
  sciops predict RUN …     what a trained model predicts for a file, with its errors
  sciops evaluate RUN …    how well it does on a file: errors, by wavenumber and step, worst samples
  sciops zoo [NAME]        trained models that come with the package: zoo:NAME is a RUN
Studies and pages
  sciops study NAME …      run a study; without a name, lists them
  sciops benchmark …       train models × data sets: JSON, CSV and an HTML page
  sciops report FOLDER     the run or study in a folder as one HTML page
  sciops compare RUN RUN … trained runs side by side, with a verdict where they were tested on the same fields
  sciops demo              data, training and the resolution-shift study, small, in a few minutes
Help
  sciops doctor [FILE]     what this machine offers, what a file is, which command fits

The first hour:
  sciops generate darcy --preset quick --samples 280 --resolutions 85 43 22 --output runs/darcy.h5
  sciops info runs/darcy.h5
  sciops train --data runs/darcy.h5 --resolution 22 --model fno --output runs/fno22
  sciops evaluate runs/fno22 --data runs/darcy.h5
  sciops study resolution_shift --data runs/darcy.h5

Every verb answers --help. Those that open files take --budget bytes=8e9,seconds=60, what a file may take of memory,
objects and time where you trust it. A command that cannot do what it should says why in one line and ends with
status 2.
"""

import difflib
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sciops.commands.command_line import command, given_budget, guarded, parse
from sciops.commands.packages import listing, names_in, own_package


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
    verbs: dict[str, Callable[[list[str]], None]] = {
        "generate": lambda rest: _by_name("data_gen", "generate", rest),
        "study": lambda rest: _by_name("studies", "study", rest),
        "train": lambda rest: _run_module("studies.train", "sciops train", rest),
        **{verb: partial(_of_files, verb, "file_verbs") for verb in ("info", "validate", "convert", "doctor")},
        **{verb: partial(_of_files, verb, "model_verbs") for verb in ("predict", "evaluate", "zoo")},
        **{verb: partial(_of_files, verb, "run_verbs") for verb in ("report", "compare")},
        "benchmark": _benchmark,
        "download": _download,
        "demo": _demo,
    }
    if name not in verbs:
        raise ValueError(f"sciops {name}: expected one of {', '.join(verbs)}; sciops --help describes them")
    return verbs[name]


def _by_name(package: str, verb: str, rest: list[str]) -> None:
    names = names_in(package)
    if not rest or rest[0] in ("-h", "--help"):
        print(
            f"sciops {verb} NAME …   with NAME one of the following; sciops {verb} NAME --help describes its options\n"
        )
        print(listing(package))
        return
    if rest[0] not in names:
        near = difflib.get_close_matches(rest[0], names, 1) or [name for name in names if name.startswith(rest[0])][:1]
        meant = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"sciops {verb} {rest[0]}: no such name; {meant}sciops {verb} lists them")
    _run_module(f"{package}.{rest[0]}", f"sciops {verb} {rest[0]}", rest[1:])


def _run_module(module: str, prog: str, rest: list[str]) -> None:
    own_package(module.partition(".")[0])
    loaded = importlib.import_module(module)
    command(loaded.run, loaded.PRESETS, rest, prog=prog)


def _of_files(verb: str, module: str, rest: list[str]) -> None:
    with given_budget(rest):
        getattr(importlib.import_module(f"sciops.commands.{module}"), verb)(rest)


def _benchmark(rest: list[str]) -> None:
    _run_module("sciops.commands.benchmark", "sciops benchmark", rest)


def _download(rest: list[str]) -> None:
    import tyro

    def download(
        name: tyro.conf.Positional[str | None] = None,
        files: tyro.conf.Positional[tuple[str, ...]] = (),
        folder: Path | None = None,
        limit: int | None = None,
        list: bool = False,
    ) -> dict[str, Any]:
        """Fetches a public data set, checked by its hash and resumed where it broke off; without a name, lists them.

        Args:
            name: a set of the list
            files: names in the set; all of them where none is given
            folder: where to put them; default $SCIOPS_DATA or the user's cache
            limit: bytes that a file of unknown size may have; default 128 GiB, 4 GiB where the server states no length
            list: show the files of the set instead of fetching them
        """
        return locals()

    from sciops import datasets
    from sciops.datasets.download.fetching import folder_of
    from sciops.datasets.download.sizes import announcement, bytes_text, set_size

    asked = parse(download, rest, prog="sciops download")
    sets = datasets.public_sets()
    if asked["name"] is None:
        for one in sets.values():
            print(
                f"{one.name:32s} {len(one.files):4d} files  {one.about}"
                + (f", {size}" if (size := set_size(one)) else "")
            )
        return
    if asked["list"] and asked["name"] in sets:
        one = sets[asked["name"]]
        print(f"{one.about}\n{one.page}\nlayout {one.layout}" + (f"\nthe same law: {one.recipe}" if one.recipe else ""))
        for file in one.files.values():
            size = f"  {bytes_text(file.size)}" if file.size is not None else ""
            print(f"  {file.name}  {file.hash or 'no published hash'}{size}")
        return
    wanted = asked["files"] or None
    if asked["name"] in sets and sets[asked["name"]].files:
        where = asked["folder"] or folder_of(asked["name"])
        print(announcement(sets[asked["name"]], wanted, where), file=sys.stderr)
    for path in datasets.fetch(asked["name"], wanted, folder=asked["folder"], limit=asked["limit"]):
        print(path)


def _demo(rest: list[str]) -> None:
    def demo(output: Path = Path("runs/demo")) -> Path:
        """Generates paired Darcy fields, trains small operators, asks what happens on another grid; a few minutes.

        Args:
            output: folder of the dataset, the models, the figures and report.html
        """
        return output

    output = parse(demo, rest, prog="sciops demo")
    own_package("studies")
    study = importlib.import_module("studies.resolution_shift")
    study.run(replace(study.PRESETS["quick"], output=output))


if __name__ == "__main__":
    main()
