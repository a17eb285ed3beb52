"""Wrong inputs over all commands: each ends with status 2 and one line that names what was wrong.

python tests/test_wrong_inputs.py      prints every command with its line
"""

import contextlib
import io
import os
import sys
from pathlib import Path

import pytest

from sciops import cli
from sciops.datasets.formats.samples import write_sample

# command → what its line has to name; the files are those of `prepared`
CASES = {
    "trian": "trian",
    "--verbose": "--verbose",
    "generate darcey": "darcey",
    "generate darcy --preset nope": "nope",
    "generate darcy --preset": "--preset",
    "generate darcy --smaples 3": "--samples",
    "generate darcy --samples x": "'x'",
    "generate darcy --samples 0": "--samples",
    "generate darcy --samples -3": "--samples",
    "generate darcy --resolutions 1": "--resolutions",
    "generate darcy --resolutions": "--resolutions",
    "generate darcy --resolutions 17 10": "--resolutions",
    "generate darcy --law gaussian": "two_phase",
    "generate darcy --low -1": "--low",
    "generate darcy --forcing 0": "--forcing",
    "generate darcy --anisotropy nan": "--anisotropy",
    "generate darcy --shard 4/4": "--shard",
    "generate darcy --device tpu": "tpu",
    "generate darcy --dtype float16": "float16",
    "generate darcy --output notes.txt/x.h5": "notes.txt",
    "generate darcy --budget bytes=lots": "lots",
    "generate burgers --viscosity": "--viscosity",
    "generate heat --preset quick extra": "extra",
    "info": "sciops info --help",
    "info missing.h5": "missing.h5",
    "info notes.txt": "notes.txt",
    "info empty.h5": "empty.h5",
    "info cut.h5": "cut.h5",
    "info odd.h5": "odd.h5",
    "info hollow": "hollow",
    "info burgers.h5 --jason": "--json",
    "info burgers.h5 --budget seconds=-1": "seconds",
    "validate": "sciops validate --help",
    "validate missing.h5": "missing.h5",
    "validate notes.txt": "notes.txt",
    "validate burgers.h5 --solutions -1": "--solutions",
    "validate burgers.h5 burgers.h5 --hash 00": "--hash",
    "convert": "sciops convert --help",
    "convert burgers.h5": "the file to write",
    "convert burgers.h5 out.h5": "--layout",
    "convert burgers.h5 out.h5 --layout hdf6": "hdf6",
    "convert missing.h5 out.h5 --layout native": "missing.h5",
    "convert burgers.h5 burgers.h5 --layout native": "burgers.h5",
    "convert burgers.h5 out.h5 --layout native --split middle": "middle",
    "convert burgers.h5 out.h5 --layout native --dtype float8": "float8",
    "convert burgers.h5 out.h5 --layout native --resolution 17": "17",
    "convert burgers.h5 out.mat --layout li2020": "li2020",
    "doctor one two": "two",
    "download nothing": "nothing",
    "download --limit many": "many",
    "train": "--data",
    "train --data missing.h5": "missing.h5",
    "train --data notes.txt": "notes.txt",
    "train --data burgers.h5 --preset best": "best",
    "train --data burgers.h5 --model fnu": "fnu",
    "train --data burgers.h5 --epochs 0": "epochs",
    "train --data burgers.h5 --batch-size 0": "batch_size",
    "train --data burgers.h5 --learning-rate -1": "learning_rate",
    "train --data burgers.h5 --resolution 17": "17",
    "train --data burgers.h5 --task guess": "guess",
    "train --data burgers.h5 --options width": "width",
    "train --data burgers.h5 --mixer glue": "glue",
    "train --data burgers.h5 --gradients magic": "magic",
    "train --data burgers.h5 --device gpu9": "gpu9",
    "train --data burgers.h5 --inputs pressure": "pressure",
    "study resolution": "resolution",
    "study resolution_shift --arms fnu": "fnu",
    "study resolution_shift --data missing.h5": "missing.h5",
    "study resolution_shift --data burgers.h5": "trajectories",
    "study resolution_shift --train-grids 61 --test-grids 16": "test_grids",
    "study resolution_shift --seeds many": "many",
    "study readers_matrix --layouts hdf6": "hdf6",
    "demo --size 3": "--size",
    "demo --output notes.txt": "notes.txt",
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wrong")
    return _prepare(folder)


def _prepare(folder):
    import h5py

    write_sample("pdebench-1d", folder / "burgers.h5")
    (folder / "notes.txt").write_text("hello")
    (folder / "empty.h5").touch()
    (folder / "cut.h5").write_bytes((folder / "burgers.h5").read_bytes()[:200])
    with h5py.File(folder / "odd.h5", "w") as file:
        file["pressure"] = [1.0]
    (folder / "hollow").mkdir()
    return folder


def said_by(command):
    """(status, what a command prints on standard error)."""
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        try:
            cli.main(command.split())
        except SystemExit as stop:
            return stop.code, errors.getvalue().strip()
    return 0, errors.getvalue().strip()


@pytest.mark.parametrize("command", CASES)
def test_a_wrong_input_is_answered_in_one_line(prepared, monkeypatch, command):
    monkeypatch.chdir(prepared)
    status, text = said_by(command)
    assert status == 2 and text.startswith("error: ") and "\n" not in text, (status, text)
    assert CASES[command] in text and len(text) < 700, text


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(_prepare(Path(scratch)))
        for one, named in CASES.items():
            code, line = said_by(one)
            sound = code == 2 and line.startswith("error: ") and "\n" not in line and named in line
            print(f"{'' if sound else 'NOT ONE CLEAR LINE: '}sciops {one}\n    {line}", flush=True)
        os.chdir("/")
    sys.exit()
