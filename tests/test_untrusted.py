"""JSON of bounded size and depth, regular files alone, and panics as errors."""

import json
import os

import pytest

from sciops.files.untrusted import DEEPEST_JSON, check_regular, panics_as_errors, parse_json, read_json


def nested(levels: int) -> str:
    return '{"a":[' * (levels // 2) + "[" * (levels % 2) + "]" * (levels % 2) + "]}" * (levels // 2)


@pytest.mark.parametrize("text", ["3", '"[[["', "[]", '{"a": [1, {"b": null}]}', nested(DEEPEST_JSON)])
def test_json_within_the_bounds_is_what_json_reads(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    assert parse_json(text) == parse_json(text.encode()) == read_json(tmp_path / "a.json") == json.loads(text)


@pytest.mark.parametrize("levels", [DEEPEST_JSON + 1, 500, 200_001])
def test_deep_json_is_refused_however_deep(levels):
    with pytest.raises(json.JSONDecodeError, match="more than 100 levels deep"):
        parse_json(nested(levels))


def test_long_json_is_not_read(tmp_path):
    (tmp_path / "a.json").write_text("[1, 2]")
    assert read_json(tmp_path / "a.json", largest=6) == [1, 2]
    with pytest.raises(ValueError, match="longer than the 5 bytes"):
        read_json(tmp_path / "a.json", largest=5)
    for wrong in ("", "{", "9" * 5000, b"\xff\xfe\xfd"):
        with pytest.raises(ValueError):
            parse_json(wrong)
    with pytest.raises(TypeError):
        parse_json(None)


def test_regular_files_alone_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("[]")
    (tmp_path / "link").symlink_to("file")
    assert read_json(tmp_path / "link") == []
    for path, kind, message in (
        (tmp_path / "pipe", ValueError, "not a regular file"),
        ("/dev/null", ValueError, "not a regular file"),
        (tmp_path, IsADirectoryError, "is a folder"),
        (tmp_path / "none", FileNotFoundError, "does not exist"),
        (tmp_path / "file" / "in it", FileNotFoundError, "does not exist"),
    ):
        for read in (check_regular, read_json):
            with pytest.raises(kind, match=message):
                read(path)


def test_a_panic_is_an_error_and_an_interrupt_is_not():
    panic = type("PanicException", (BaseException,), {})
    with pytest.raises(ValueError, match="the library panicked: at line 3 of x"), panics_as_errors():
        raise panic("at line 3\nof x")
    with pytest.raises(KeyboardInterrupt), panics_as_errors():
        raise KeyboardInterrupt
