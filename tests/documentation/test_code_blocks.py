"""Every code block of README.md and docs/ runs; every command line in them exists."""

from __future__ import annotations

import re

import pytest
from documentation.command_lines import check, commands_of, parse_alone
from documentation.pages import PAGES, ROOT, blocks_of

__all__ = ["parse_alone"]

BLOCKS = {str(page.relative_to(ROOT)): blocks_of(page) for page in PAGES}
WITH_PYTHON = [name for name, blocks in BLOCKS.items() if any(b.language == "python" and not b.not_run for b in blocks)]
WITH_SHELL = [name for name, blocks in BLOCKS.items() if any(b.language == "bash" for b in blocks)]


@pytest.mark.parametrize("name", WITH_PYTHON)
def test_the_python_blocks_of_a_page_run_in_order(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for block in BLOCKS[name]:
        if block.language in ("python", "test") and not block.not_run:
            exec(compile("\n" * block.line + block.code, name, "exec", dont_inherit=True), names)


@pytest.mark.parametrize("name", WITH_SHELL)
def test_the_command_lines_of_a_page_exist(name, tmp_path, monkeypatch, parse_alone, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "heat_mixer.py").touch()  # a page's own module, which a command names
    lines = [line for block in BLOCKS[name] if block.language == "bash" for line in commands_of(block.code)]
    assert lines
    for line in lines:
        check(line, capsys)


def test_every_block_says_what_it_is():
    known = {"python", "bash", "test", "text"}
    for name, blocks in BLOCKS.items():
        for block in blocks:
            assert block.language in known or block.language.startswith("{"), f"{name}:{block.line}: no language"


def test_blocks_that_are_not_run_are_few_and_say_why():
    unrun = [f"{name}:{b.line}: {b.not_run}" for name, blocks in BLOCKS.items() for b in blocks if b.not_run]
    assert all(re.search(r": \S+ \S+", line) for line in unrun)
    assert len(unrun) == 7, "\n".join(unrun)
