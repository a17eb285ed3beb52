"""The command as a user types it: what it prints, and one line for what is wrong."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sciops
from sciops import cli
from sciops.commands.packages import own_environment


def _refused(capsys, *words):
    with pytest.raises(SystemExit) as stop:
        cli.main(list(words))
    text = capsys.readouterr().err.strip()
    assert stop.value.code == 2 and text.startswith("error: ") and "\n" not in text, text
    return text


def test_help_names_every_verb(capsys):
    cli.main([])
    text = capsys.readouterr().out
    assert all(
        verb in text for verb in ("generate", "info", "validate", "convert", "doctor", "download", "train", "study")
    )


def test_lists_come_from_the_folders(capsys):
    cli.main(["generate"])
    assert "darcy" in capsys.readouterr().out
    cli.main(["study"])
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    names = {name for name, about in lines if len(about) > 20}
    assert {"resolution_shift", "integrator_orders"} <= names and not {"kit", "_cells"} & names


@pytest.mark.parametrize("package", ["studies", "data_gen"])
def test_a_folder_of_the_user_does_not_hide_ours(tmp_path, package):
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text("raise RuntimeError('the folder of the user was imported')")
    verb, name = {"studies": ("study", "solver_speed"), "data_gen": ("generate", "darcy")}[package]
    done = subprocess.run(
        [sys.executable, "-m", "sciops", verb],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(sciops.__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and name in done.stdout, done.stderr


def test_generate_info_validate_convert(tmp_path, capsys):
    file = tmp_path / "d.h5"
    size = ["--samples", "6", "--resolutions", "17", "9", "--threads", "1"]
    cli.main(["generate", "darcy", "--preset", "quick", *size, "--output", str(file)])
    capsys.readouterr()
    cli.main(["info", str(file)])
    text = capsys.readouterr().out
    assert "native" in text and "17" in text and "node" in text
    cli.main(["validate", str(file)])
    assert "sound" in capsys.readouterr().out
    cli.main(["convert", str(file), str(tmp_path / "d.mat"), "--layout", "li2020"])
    capsys.readouterr()
    cli.main(["info", str(tmp_path / "d.mat")])
    assert "li2020" in capsys.readouterr().out


def test_wrong_words_are_answered_in_one_line(tmp_path, capsys):
    assert "generate" in _refused(capsys, "genrate")
    assert "darcy" in _refused(capsys, "generate", "darcey")
    assert "missing.h5" in _refused(capsys, "info", str(tmp_path / "missing.h5"))
    assert "quick" in _refused(capsys, "generate", "darcy", "--preset", "nope")
    assert "--samples" in _refused(capsys, "generate", "darcy", "--smaples", "3")
    assert "'x'" in _refused(capsys, "generate", "darcy", "--samples", "x")
    assert "two_phase" in _refused(capsys, "generate", "darcy", "--law", "gaussian")
    for verb in ("info", "validate", "convert"):
        assert f"sciops {verb} --help" in _refused(capsys, verb)
    assert "--layout" in _refused(capsys, "convert", "a", "b")
    (tmp_path / "notes.txt").write_text("hello")
    assert "notes.txt" in _refused(capsys, "info", str(tmp_path / "notes.txt"))


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        (
            "info",
            "FILE [FILE ...] files of any known layout, or folders of such files; the folder of a run or of a model; "
            "zoo:NAME (at least one)",
        ),
        ("validate", "FILE [FILE ...] files of any known layout, or folders of such files (at least one)"),
        ("convert", "Layouts: native, arrays, the-well, pdebench-darcy"),
        (
            "convert",
            "--resolution {None}|{[INT [INT ...]]} points per axis, for sources that hold or nest several grids",
        ),
        ("demo", "--output PATH folder of the dataset, the models, the figures and report.html"),
        ("generate darcy", "--samples INT How many samples."),
    ],
)
def test_help_says_what_each_word_means(capsys, verb, said):
    with pytest.raises(SystemExit) as stop:
        cli.main([*verb.split(), "--help"])
    assert stop.value.code == 0
    assert said in " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_convert_keeps_one_split(tmp_path, capsys):
    file = tmp_path / "d.h5"
    size = ["--samples", "10", "--resolutions", "9", "--no-progress"]
    cli.main(["generate", "darcy", "--preset", "quick", *size, "--output", str(file)])
    cli.main(["convert", str(file), str(tmp_path / "test.pt"), "--layout", "neuralop", "--split", "test"])
    with sciops.open_dataset(file) as whole, sciops.open_dataset(tmp_path / "test.pt") as part:
        assert (part["u"].values == whole["u"].values[9:]).all() and part.sizes["sample"] == 1
    assert "--overwrite" in _refused(capsys, "convert", str(file), str(tmp_path / "test.pt"), "--layout", "neuralop")


def test_import_is_light():
    """`import sciops` brings in none of the libraries that only some rooms need."""
    heavy = "neuralop matplotlib xarray h5py tyro numba pandas transformers"
    code = f"import sys, sciops; print([m for m in '{heavy}'.split() if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_doctor_tells_of_the_machine_and_of_files_it_cannot_open(tmp_path, capsys):
    cli.main(["doctor"])
    text = capsys.readouterr().out
    assert sciops.__version__ in text and "torch" in text and "[fast]" in text
    import h5py

    with h5py.File(tmp_path / "odd.h5", "w") as file:
        file["tensor"], file["pressure"] = [[1.0, 2.0]], [1.0]
    with pytest.raises(SystemExit) as stop:
        cli.main(["doctor", str(tmp_path / "odd.h5")])
    text = capsys.readouterr().out
    assert stop.value.code == 1
    assert "89 48 44 46" in text and "tensor float64 (1, 2)" in text and "nearest    pdebench" in text


def test_download_lists_sets_and_their_files(capsys):
    cli.main(["download"])
    assert "pdebench-burgers" in capsys.readouterr().out
    cli.main(["download", "pdebench-burgers", "--list"])
    text = capsys.readouterr().out
    assert "1D_Burgers_Sols_Nu0.01.hdf5  md5:" in text and "sciops generate burgers" in text
    assert "expected one of" in _refused(capsys, "download", "nothing")


def test_processes_of_ours_find_our_studies_beside_a_folder_of_that_name(tmp_path):
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "__init__.py").write_text("")
    code = "import sciops, studies; print(studies.__file__)"
    words = {"cwd": tmp_path, "env": own_environment(), "capture_output": True, "text": True, "check": True}
    found = Path(subprocess.run([sys.executable, "-c", code], **words).stdout.strip())
    assert found == Path(importlib.util.find_spec("studies").origin)
