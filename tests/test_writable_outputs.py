"""An output that cannot be written is refused before the work, in one line that names it as it was typed."""

import builtins
import errno
import importlib
import io
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import data_gen
import sciops
import studies
from sciops import cli, datasets
from sciops.commands.packages import names_in
from sciops.datasets import images
from sciops.datasets.native import write_native
from sciops.datasets.speech import corpus as speech
from sciops.datasets.text import tokenizers
from sciops.datasets.text.token_data import write_tokens
from sciops.files.whole_files import replacing
from sciops.files.writable import writable_file, writable_folder
from sciops.plotting import figure
from sciops.runs import RunFolder
from sciops.training.checkpoints import save_checkpoint

DARCY = "generate darcy --preset quick --samples 2 --resolutions 9 --threads 1 --output"
# a command and whether its last word is a folder; `source.h5` is there
COMMANDS = {
    f"{DARCY} OUTPUT": False,
    f"{DARCY} OUTPUT --dry-run": False,
    "generate heat --preset quick --samples 1 --output OUTPUT": False,
    "generate heat --preset quick --samples 1 --output OUTPUT.zarr": False,
    "generate speech --family tones --text python --sentences 2 --output OUTPUT": False,
    "convert source.h5 OUTPUT --layout native": False,
    "convert source.h5 OUTPUT.zarr --layout native": False,
    "convert source.h5 OUTPUT --layout the-well --dtype float32 --overwrite": False,
    "download pdebench-burgers --folder OUTPUT": True,
    "train --data source.h5 --folder OUTPUT": True,
    "train --data missing.h5 --folder OUTPUT": True,
    "study resolution_shift --output OUTPUT": True,
    "study verdict_calibration --output OUTPUT": True,
    "demo --output OUTPUT": True,
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("source") / "source.h5"
    a = 1 + np.random.default_rng(0).random((2, 5, 5)).astype("f4")
    fields = {name: (("sample", "x", "y"), a, {}) for name in "au"}
    write_native(path, datasets.build_dataset(fields, sciops.Grid((5, 5)), layout="native", equation="darcy"))
    return path


@pytest.fixture
def place(source, tmp_path, monkeypatch):
    """A folder to work in, with a source, a file and a folder."""
    (tmp_path / "source.h5").symlink_to(source)
    (tmp_path / "file").write_text("mine")
    for name in ("folder", "folder.zarr"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _listing(place):
    return sorted(str(p.relative_to(place)) for p in place.rglob("*"))


def _refuses_to_create(monkeypatch, number):
    """From here on the system creates no file."""
    by_flags, by_mode = os.open, open

    def refuse(path):
        raise OSError(number, os.strerror(number), str(path))

    def open_by_flags(path, flags, *words, **options):
        writes = flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR)
        return refuse(path) if writes else by_flags(path, flags, *words, **options)

    def open_by_mode(path, mode="r", *words, **options):
        return refuse(path) if set(mode) & set("wax+") else by_mode(path, mode, *words, **options)

    monkeypatch.setattr(os, "open", open_by_flags)
    for module in (builtins, io):
        monkeypatch.setattr(module, "open", open_by_mode)


@pytest.mark.parametrize("obstacle", ["below a file", "in its place", "may not be written", "full"])
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_refuse_before_they_work(place, capsys, monkeypatch, command, obstacle):
    other = "file" if COMMANDS[command] else "folder"
    typed = {"below a file": "file/deeper/it", "in its place": other}.get(obstacle, "new/it")
    asked = next(word for word in command.split() if word.startswith("OUTPUT"))
    typed = asked.replace("OUTPUT", typed)
    words = [typed if word == asked else word for word in command.split()]
    if obstacle in ("may not be written", "full"):
        _refuses_to_create(monkeypatch, errno.EROFS if obstacle == "may not be written" else errno.ENOSPC)
    before = _listing(place)
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    said = capsys.readouterr().err
    assert stop.value.code == 2 and said.startswith("error: ") and said.count("\n") == 1, said
    assert typed in said and ".parts" not in said and ".tmp" not in said and "  0%" not in said
    assert _listing(place) == before and (place / "file").read_text() == "mine"


def _config_of(module):
    """The first preset of a study or generator, with its output where none can be, and the name of its field."""
    config = next(iter(module.PRESETS.values()))
    name = "folder" if hasattr(config, "folder") else "output"
    return replace(config, **{name: Path("file/it")})


@pytest.mark.parametrize("package", [data_gen, studies], ids=lambda package: package.__name__)
def test_every_generator_and_study_refuses_at_once(place, capsys, monkeypatch, package):
    monkeypatch.setenv("SCIOPS_DATA", str(place))
    before, refused = _listing(place), []
    for name in names_in(package.__name__):
        module = importlib.import_module(f"{package.__name__}.{name}")
        if name == "fashion_mnist":  # writes nothing
            continue
        options = {"train": {"data": Path("missing.h5")}, "speech": {"family": "tones", "text": "python"}}
        config = replace(_config_of(module), **options.get(name, {}))
        try:
            with pytest.raises(OSError, match=r"^file/it cannot be written: file is not a folder; name another place$"):
                module.run(config)
        except ImportError:  # a package that the study needs
            continue
        refused.append(name)
    said = capsys.readouterr()
    assert len(refused) > 10 and not said.err and _listing(place) == before


def _model():
    return sciops.build_model("fno", in_channels=1, out_channels=1, width=2, depth=1, modes=(2,))


def _draw(path):
    with figure(path):
        raise AssertionError("drawn before the output was looked at")


def _nothing():
    raise AssertionError("made before the output was looked at")


def _fit(path):
    u = torch.zeros(2, 1, 4)
    data = datasets.TensorFields(u, u, sciops.Grid(4, 1.0, "periodic"))
    sciops.training.fit(_model(), datasets.Splits(train=data), sciops.training.TrainConfig(folder=path, epochs=1))


WRITERS = {
    "write_native": (lambda path: write_native(path, _fields()), False),
    "convert": (lambda path: sciops.convert(_fields(), path, "arrays"), False),
    "write_well_folder": (lambda path: datasets.write_well_folder(_fields(), path.parent, path.name), True),
    "write_sample": (lambda path: datasets.write_sample("neuralop", path), False),
    "write_idx": (lambda path: images.write_idx(path, np.zeros((1, 2, 2), "u1")), False),
    "write_tokens": (lambda path: write_tokens(path.with_suffix(".npy"), np.arange(3)), False),
    "Symbols.save": (lambda path: tokenizers.Symbols("abc\ufffd").save(path), True),
    "cached_corpus": (lambda path: speech.cached_corpus(path, {}, _nothing), False),
    "figure": (lambda path: _draw(path.with_suffix(".png")), False),
    "save_model": (lambda path: sciops.save_model(_model(), path), True),
    "save_checkpoint": (lambda path: save_checkpoint(path, {"a": torch.zeros(1)}, {}), False),
    "fit": (_fit, True),
    "RunFolder": (RunFolder, True),
}


def _fields():
    a = (("sample", "x"), np.ones((2, 4), "f4"), {})
    split = (("sample",), np.array([0, 2], "i1"), {})
    return datasets.build_dataset({"a": a, "u": a, "split": split}, sciops.Grid(4), layout="native", equation="darcy")


@pytest.mark.parametrize("obstacle", ["below a file", "in its place", "full"])
@pytest.mark.parametrize("writer", WRITERS)
def test_writers_name_what_they_were_given(place, monkeypatch, writer, obstacle):
    write, folder = WRITERS[writer]
    for name in ("folder.npy", "folder.png"):
        Path(name).mkdir()
    name = {"below a file": "file/deeper/it", "in its place": "file" if folder else "folder"}.get(obstacle, "new/it")
    if obstacle == "full":
        _refuses_to_create(monkeypatch, errno.ENOSPC)
    before = _listing(place)
    with pytest.raises(OSError) as caught:
        write(Path(name))
    said = str(caught.value)
    assert name in said and "\n" not in said and ".tmp" not in said and ".partial" not in said
    assert [one for one in _listing(place) if not one.startswith("new")] == before and (
        place / "file"
    ).read_text() == "mine"


def test_what_can_be_written_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("a.h5", "new/a.h5", Path("a.h5"), tmp_path / "b" / "c"):
        assert writable_file(path) == Path(path) and writable_folder(path) == Path(path)
    assert writable_folder("folder/") == Path("folder") and writable_folder(".") == Path()
    assert not list(tmp_path.iterdir())
    Path("a.h5").write_text("mine")
    Path("link").symlink_to("nowhere")
    assert writable_file("a.h5") and writable_file("link")  # both may be replaced
    with pytest.raises(FileExistsError, match="^link is a link to nothing, a folder is needed"):
        writable_folder("link")
    for name in ("", ".", "new/"):
        with pytest.raises(IsADirectoryError, match="is a folder: name the file to write in it"):
            writable_file(name)


def test_errors_of_other_files_pass_through_while_one_is_written(tmp_path):
    with pytest.raises(FileNotFoundError, match="No such file or directory: 'missing'"), replacing(tmp_path / "a"):
        open("missing")
    with pytest.raises(PermissionError, match="a cannot be written"), replacing(tmp_path / "a") as temporary:
        raise PermissionError(errno.EACCES, "no", str(temporary))
    with pytest.raises(OSError, match="^x is damaged$"), replacing(tmp_path / "a"):
        raise OSError("x is damaged")
    assert not list(tmp_path.iterdir())
