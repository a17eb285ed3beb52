"""Texts become numbers and come back; what is missing names the command that brings it."""

import subprocess

import numpy as np
import pytest

from sciops.datasets import text as module
from sciops.datasets.text import CORPORA, characters, read_corpus


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
