"""Texts become numbers and come back; what is missing names the command that brings it."""

import os
import subprocess

import numpy as np
import pytest

from sciops import Budget
from sciops.datasets.text import CORPORA, characters, read_corpus, read_documents, read_text
from sciops.datasets.text import corpora as module
from sciops.files.budget import OverBudget


def test_numbers_are_the_text():
    words = "abracadabra, ünïcödé 𝔸" * 40 + "§" + "xyz" * 30
    found = characters(words, held_out=0.1, rarest=2)
    back = "".join(found.symbols[c] for c in np.concatenate([found.train, found.validation, found.test]))
    assert back == words.replace("§", "\ufffd")
    assert len(found.validation) == len(found.test) == len(words) // 10
    assert list(found.symbols[:-1]) == sorted(set(words) - {"§"})
    assert "\ufffd" not in characters("abab" * 10, rarest=1).symbols
    with pytest.raises(ValueError, match="3 characters, held_out=0.05"):
        characters("abc")


def test_the_text_that_is_always_there():
    text = read_corpus("python")
    assert len(text) > 300_000 and 'The "for" statement' in text


def test_verses_are_read_without_their_names(monkeypatch):
    monkeypatch.setattr(module.shutil, "which", lambda name: "/usr/bin/bible")
    answer = "Ge1:1 In the beginning\nRev22:21 The grace. Amen.\n"
    monkeypatch.setattr(module.subprocess, "run", lambda *a, **k: subprocess.CompletedProcess(a, 0, answer, ""))
    assert read_corpus("bible") == "In the beginning\nThe grace. Amen.\n"


def test_pages_are_read_without_their_markup(tmp_path, monkeypatch):
    (tmp_path / "b.html").write_text(
        "<html><head><title>x</title></head><body><p>Tom &amp; Jerry</p>\n\n<p>two</p></body>"
    )
    (tmp_path / "a.html").write_text("<style>p {}</style><h1>One</h1>")
    monkeypatch.setattr(module, "HANDBOOK", tmp_path)
    assert read_corpus("handbook") == "One\nTom & Jerry\ntwo"


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    monkeypatch.setattr(module, "HANDBOOK", tmp_path)
    for name, package in (("bible", "bible-kjv"), ("handbook", "debian-handbook")):
        with pytest.raises(FileNotFoundError, match=f"apt-get install {package}"):
            read_corpus(name)
        assert package in CORPORA[name]
    with pytest.raises(ValueError, match="corpus 'koran': expected one of bible"):
        read_corpus("koran")


def test_files_and_folders_are_read_in_the_order_of_their_names(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.txt").write_text("zwei ü", encoding="utf-8")
    (tmp_path / "sub" / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\n")
    (tmp_path / "note.md").write_text("three")
    assert read_text(tmp_path / "b.txt") == "zwei ü"
    assert read_documents(tmp_path) == {"b.txt": "zwei ü", "sub/a.txt": "one\r\n"}
    assert list(read_documents(tmp_path)) == ["b.txt", "sub/a.txt"]
    assert read_documents(tmp_path, pattern="*.md") == {"note.md": "three"}
    assert read_documents(tmp_path / "b.txt") == {"b.txt": "zwei ü"}


def test_what_is_no_text_is_refused_in_one_line(tmp_path):
    (tmp_path / "latin.txt").write_bytes("voilà".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin.txt is not UTF-8 text: byte 4 is 0xe0; convert it \(iconv"):
        read_documents(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"has no files \*.rst: pass pattern"):
        read_documents(tmp_path, pattern="*.rst")
    with pytest.raises(FileNotFoundError, match="none.txt does not exist"):
        read_text(tmp_path / "none.txt")
    with pytest.raises(ValueError, match="is a folder"):
        read_text(tmp_path)


def test_a_text_counts_what_python_keeps_of_it(tmp_path):
    """One letter beyond the first 65,536 makes four bytes of every letter."""
    (tmp_path / "a.txt").write_text("a" * 9999 + "\U0001f40d", encoding="utf-8")
    (tmp_path / "b.txt").write_text("a" * 10_003)
    with pytest.raises(OverBudget, match=r"a.txt: its text takes 4e\+04 bytes of memory"):
        read_documents(tmp_path, budget=Budget(bytes=20_000))
    assert len(read_documents(tmp_path / "b.txt", budget=Budget(bytes=1))["b.txt"]) == 10_003
    assert len(read_text(tmp_path / "a.txt", budget=Budget(bytes=31_000))) == 10_000
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe is not a regular file"):
        read_text(tmp_path / "pipe")
