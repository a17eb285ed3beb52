"""Whether a line of a shell block is a command that exists: verb, name, options and values, without running it."""

import importlib
import pkgutil
import re
import shlex
import tomllib
from pathlib import Path

import pytest

import sciops.cli
import sciops.commands
from sciops.commands import command_line

ROOT = Path(__file__).parents[2]
OTHERS = {".", "apt-get", "dask", "export", "openssl", "umask"}  # programs that are not the project's: not checked


class Parsed(Exception):
    """Ends a command when its arguments are understood."""


@pytest.fixture
def parse_alone(monkeypatch):
    """Commands end with `Parsed` as soon as their arguments are read."""
    parse = command_line.parse

    def parse_and_stop(*arguments, **options):
        raise Parsed(parse(*arguments, **options))

    names = [f"sciops.commands.{module.name}" for module in pkgutil.iter_modules(sciops.commands.__path__)]
    for module in [sciops.cli, *map(importlib.import_module, names)]:
        if getattr(module, "parse", None) is parse:
            monkeypatch.setattr(module, "parse", parse_and_stop)


def commands_of(code: str) -> list[str]:
    """The commands of a shell block, one a line: comments and assignments left out, continued lines joined."""
    lines = (line.strip() for line in code.replace("\\\n", " ").splitlines())
    lines = (re.sub(r"(^|\s)#.*", "", line) for line in lines)
    return [line.rstrip() for line in lines if line and not re.match(r"\w+=\S*( |$)|\w+=[\"']", line)]


def check(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails with the command's own refusal unless it would begin to work."""
    words = [word for word in shlex.split(re.sub(r"\$\w+", "1", line)) if word != "…"]
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line
    elif words[0] == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        wanted = [name for word in words for name in re.findall(r"\[(.*)\]", word) for name in name.split(",")]
        assert set(wanted) <= set(extras), line
    elif words[0] == "sciops":
        _begins(line, capsys, lambda: sciops.cli.main(words[1:]))
    elif "-m" in words:
        module = importlib.import_module(words[words.index("-m") + 1])
        rest = words[words.index("-m") + 2 :]
        _begins(line, capsys, lambda: command_line.command(module.run, module.PRESETS, rest, prog=module.__name__))
    else:
        assert words[0] in OTHERS, f"{line}: neither ours nor among {sorted(OTHERS)}"


def _begins(line, capsys, begin):
    try:
        begin()
    except Parsed:
        pass
    except SystemExit as stop:
        assert not stop.code, f"{line}\n{capsys.readouterr().err}"
