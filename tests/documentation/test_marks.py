"""The marks before code blocks, and the check of command lines, find what is wrong."""

import pytest
from documentation.command_lines import check, commands_of, parse_alone
from documentation.pages import blocks_of

__all__ = ["parse_alone"]


def page(tmp_path, text):
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    return tmp_path / "page.md"


def test_marks_change_the_block_that_follows_them(tmp_path):
    text = "<!-- test\nx = 1\n-->\n<!-- tested with: 100 → 2; b → c -->\n```python\na = 100 + b\n```\n"
    text += "<!-- not run: needs a file -->\n```python\nopen(1)\n```\n"
    first, second, third = blocks_of(page(tmp_path, text))
    assert (first.language, first.code) == ("test", "x = 1\n")
    assert (second.code, second.not_run) == ("a = 2 + c\n", "")
    assert third.not_run == "needs a file" and third.line == 9


@pytest.mark.parametrize(
    "text",
    [
        "<!-- tested with: 5 → 2 -->\n```python\na = 100\n```\n",
        "<!-- not run: needs a file -->\n\nA sentence.\n\n```python\na = 100\n```\n",
    ],
)
def test_a_mark_that_does_nothing_is_an_error(tmp_path, text):
    with pytest.raises(ValueError, match="page.md:"):
        blocks_of(page(tmp_path, text))


def test_commands_of_a_block():
    code = "export A=1\nX=2\nsciops train \\\n  --epochs 2   # a comment\n\n# alone\nsciops info 'a#b'\n"
    assert commands_of(code) == ["export A=1", "sciops train    --epochs 2", "sciops info 'a#b'"]


@pytest.mark.parametrize(
    "line",
    [
        "sciops no_such_verb",
        "sciops study no_such_study",
        "sciops generate darcy --preset no_such_preset",
        "sciops generate darcy --no-such-option 1",
        "sciops train --epochs many",
        "sciops convert a.h5",
        "make no_such_target",
        "pip install 'sciops[no_such_extra]'",
        "no_such_program --help",
    ],
)
def test_a_command_that_does_not_exist_fails(line, parse_alone, capsys):
    with pytest.raises(AssertionError):
        check(line, capsys)


def test_commands_that_exist_pass(parse_alone, capsys):
    for line in ("sciops generate darcy --preset quick --samples 3", "sciops study", "python -m studies.train --help"):
        check(line, capsys)
