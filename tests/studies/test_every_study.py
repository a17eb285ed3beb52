"""Every study is found by its name, answers --help, and can be handed to a process of its own."""

import ast
import contextlib
import importlib
import io
import pickle
import pkgutil
import re
import types
from dataclasses import fields
from pathlib import Path

import pytest

import studies
from sciops.commands.command_line import command
from sciops.commands.packages import names_in


@pytest.mark.parametrize("name", names_in("studies"))
def test_a_study_has_presets_flags_and_a_configuration_that_travels(name):
    try:
        study = importlib.import_module(f"studies.{name}")
    except ImportError as missing:
        pytest.skip(str(missing))
    (kind,) = {type(preset) for preset in study.PRESETS.values()}
    said = io.StringIO()
    with contextlib.redirect_stdout(said), pytest.raises(SystemExit) as stop:
        command(study.run, study.PRESETS, ["--help"])
    assert not stop.value.code
    for field in fields(kind):
        named = re.search(r"name='(.*?)'", str(field.type))
        flag = f"--{named[1] if named else field.name.replace('_', '-')}"
        assert flag in said.getvalue() or "Mapping" in str(field.type), flag
    for preset in study.PRESETS.values():
        pickle.dumps(preset)  # by the name of its class, which a spawned worker looks up
    for part in pkgutil.iter_modules(getattr(study, "__path__", ())):  # not hidden by a function of the same name
        assert isinstance(getattr(study, part.name, study), types.ModuleType), f"{name}.{part.name}"


def test_packages_start_alike():
    (folder,) = studies.__path__
    starts = {path.parent.name: path.read_text() for path in Path(folder).glob("*/__main__.py")}
    assert set(starts) == {p.name for p in Path(folder).iterdir() if (p / "__init__.py").exists()} - {"kit"}
    assert len({text.replace(name, "NAME") for name, text in starts.items()}) == 1


def test_every_study_answers_in_a_sentence_and_every_figure_has_a_caption():
    """`finished` asks every study for its answer, and `sciops.plotting.figure` writes the caption into the picture."""
    (folder,) = map(Path, studies.__path__)
    answering = set()
    for path in folder.rglob("*.py"):
        own = path.relative_to(folder).parts[0].removesuffix(".py")
        tree = ast.parse(path.read_text())
        opened = [item.context_expr for node in ast.walk(tree) if isinstance(node, ast.With) for item in node.items]
        for node in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            names, called = {keyword.arg for keyword in node.keywords}, ast.unparse(node.func)
            if called == "finished":
                assert names & {"answer", None}, f"{path}:{node.lineno}"
                answering.add(own)
            # the report of resolution_shift has captions of its own, which say which grids were shown
            if node in opened and called in ("figure", "panels", "drawn") and own not in ("resolution_shift", "kit"):
                assert names & {"caption", None}, f"{path}:{node.lineno}"
    others = {"train", "benchmarks", "resolution_shift"}  # these write what their pages say themselves
    assert {*names_in("studies")} - others - {"fuzz_loaders", "fuzz_readers"} <= answering and "kit" in answering


def test_no_study_imports_another_and_the_kit_imports_none():
    (folder,) = map(Path, studies.__path__)
    for path in folder.rglob("*.py"):
        own = path.relative_to(folder).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "studies":
                rooms = [*node.module.split(".")[1:2], *(name.name for name in node.names)]
                # the zoo's models are trained by `sciops train`
                assert rooms[0] in (own, "kit", *(("train",) if own == "zoo" else ())), f"{path}: {ast.unparse(node)}"
                assert not any(name.startswith("_") for name in rooms), f"{path}: {ast.unparse(node)}"
