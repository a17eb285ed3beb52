"""Summaries of real texts: what is read of Debian's files and of docstrings, and splits without leaks."""

from __future__ import annotations

import sys

import pytest

from sciops import Budget
from sciops.datasets.text import summaries
from sciops.datasets.text.docstrings import cleaned
from sciops.datasets.text.gap_sentences import gap_pair, principal_sentences, sentences
from sciops.datasets.text.summaries import (
    Summarised,
    docstrings,
    package_descriptions,
    split_summaries,
    without_repeats,
)
from sciops.datasets.text.words import words
from sciops.evaluation import rouge
from sciops.files.budget import OverBudget, opening_within

STATUS = """Package: libthing1
Source: thing (1.2)
Description: library for things, shared part
 The thing library reads things
 and writes them again.
 .
 Its features are:
  - things of all sizes, which may
    be larger than memory
  - no configuration
 .
 This package has the shared library.

Package: other
Description: tool without a long text

Package: later
Description: tool that comes later
 It has a long text, of which there
 are some words: one two three four five six seven eight nine ten.
"""


@pytest.fixture
def debian(tmp_path):
    (tmp_path / "status").write_text(STATUS)
    lists = tmp_path / "lists"
    lists.mkdir()
    (lists / "deb_main_i18n_Translation-en").write_text(
        "Package: libthing-dev\nDescription-md5: 0\nDescription-en: headers of the thing library\n Headers for those "
        "who\n build programs with things, in the language C and in some others too, whatever they are.\n"
    )
    (lists / "deb_main_Packages").write_text("Package: libthing-dev\nSource: thing\nDescription: headers of\n")
    return tmp_path


def test_package_descriptions(debian):
    found = package_descriptions(debian / "status", debian / "lists", least=(5, 3))
    assert [(p.summary, p.group) for p in found] == [
        ("library for things, shared part", "debian/thing"),
        ("tool that comes later", "debian/later"),
        ("headers of the thing library", "debian/thing"),
    ]
    assert found[0].text.split("\n") == [
        "The thing library reads things and writes them again.",
        "Its features are:",
        "things of all sizes, which may be larger than memory",
        "no configuration",
        "This package has the shared library.",
    ]
    assert found[1].text.startswith("It has a long text, of which there are some words")
    with pytest.raises(FileNotFoundError, match="a Debian system's"):
        package_descriptions(debian / "nothing", debian / "nowhere")


def test_packed_lists_are_read(debian, tmp_path):
    if not summaries.APT_HELPER.exists():
        pytest.skip("no apt here")
    import gzip

    plain = debian / "lists" / "deb_main_i18n_Translation-en"
    packed = plain.with_name(plain.name + ".gz")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    found = package_descriptions(debian / "nothing", debian / "lists")
    assert [p.group for p in found] == ["debian/thing"]


DOCSTRING = """Return the :class:`~a.b.Thing` of ``x``, or a
    `link <https://example.org>`_.

    It is **found** by bisection::

        >>> thing(1)
        2

    Parameters
    ----------
    x : int
        The number.

    .. note:: left out

    :param y: The other number [1]_ of the two.
    """


def test_docstrings_become_prose():
    text, summary = cleaned(DOCSTRING)
    assert summary == "Return the a.b.Thing of x, or a link."
    assert text.split("\n") == [
        "It is found by bisection:",
        "Parameters x : int The number.",
        "The other number of the two.",
    ]
    for none in (
        "One line.",
        "f(x, y) -> Tensor\n\nText that follows.",
        "=====\nTitle\n=====\n\nText that follows it.",
    ):
        assert cleaned(none) is None


def test_docstrings_are_read_without_running_anything(tmp_path, monkeypatch):
    package = tmp_path / "some_package"
    (package / "tests").mkdir(parents=True)
    body = "It does so for every one of the entries, in order, and stops at the first that is not a number."
    (package / "__init__.py").write_text(f'raise RuntimeError\ndef f():\n    """Add all entries.\n\n    {body}"""\n')
    (package / "part.py").write_text(
        f'class A:\n    r"""Hold all of \\d in a list.\n\n    {body.replace("every", "each")}"""\n'
    )
    (package / "same.py").write_text(f'"""Add all entries.\n\n{body} Twice."""\n')
    (package / "tests" / "test_a.py").write_text(f'"""Test some more entries.\n\n{body} No."""\n')
    (package / "broken.py").write_text("def :")
    monkeypatch.syspath_prepend(tmp_path)
    found = docstrings(["some_package"], least=(10, 3))
    assert [(p.summary, p.group) for p in found] == [
        ("Add all entries.", "some_package"),
        (r"Hold all of \d in a list.", "some_package.part"),
    ]
    assert found[0].text == body and "some_package" not in sys.modules
    with pytest.raises(ValueError, match="not installed"):
        docstrings(["no_such_package"])


@pytest.fixture(scope="module")
def library():
    return docstrings()


def test_the_standard_library_has_many(library):
    found = library
    assert len(found) > 1000
    assert all(p.group.startswith("python.") and len(words(p.text)) >= 20 for p in found)
    assert len({tuple(words(p.summary)) for p in found}) == len(found)
    split = split_summaries(found, seed=1)
    assert sorted(p for part in split for p in part) == sorted(found)
    groups = [{p.group for p in part} for part in split[:3]]
    assert not (groups[0] & groups[1] or groups[0] & groups[2] or groups[1] & groups[2])
    training = [" ".join(words(p.summary)) for p in split.train] + [" ".join(words(p.text)) for p in split.train]
    training = " \n ".join(("", *training, ""))
    for pair in split.validation + split.test:
        assert f" {' '.join(words(pair.summary))} " not in training
    assert all(f" {' '.join(words(p.summary))} " in training for p in split.left_out)
    assert len(split.test) + len(split.validation) + len(split.left_out) == pytest.approx(0.2 * len(found), rel=0.15)


def test_a_leak_is_left_out():
    pairs = [Summarised(f"Text number {i} of the group.", f"summary of {i}", f"g{i}") for i in range(20)]
    clean = split_summaries(pairs)
    assert not clean.left_out
    known = clean.test[0].summary
    pairs = [
        p._replace(text=f"{p.text} The Summary, of {known.split()[-1]}!") if p in clean.train else p for p in pairs
    ]
    leaking = split_summaries(pairs)
    assert [p.summary for p in leaking.left_out] == [known]
    assert len(leaking.test) == len(clean.test) - 1
    short = [p._replace(summary=f"Word{i}") for i, p in enumerate(pairs)]
    known = split_summaries(short).test[0].summary
    leaking = split_summaries([p._replace(text=f"{p.text} {known.lower()}.") for p in short])
    assert [p.summary for p in leaking.left_out] == [known], "one word is a summary too"
    with pytest.raises(ValueError, match="expected some of each"):
        split_summaries(pairs[:2])
    with pytest.raises(ValueError, match="between 0 and 1/2"):
        split_summaries(pairs, held_out=0.5)


def test_repeats_go():
    a = Summarised("a text", "a summary", "g")
    others = [Summarised("A text.", "another", "h"), Summarised("more", "A summary!", "g"), Summarised("x", "y", "g")]
    assert without_repeats([a, *others]) == [a, others[2]]


def test_sentences():
    text = (
        'He (J. Smith et al. 2020) saw Fig. 3, e.g. The "End." Then he left! Did he? version 1.5 is out\n'
        "A line. (In brackets.) 3 more."
    )
    assert sentences(text) == [
        'He (J. Smith et al. 2020) saw Fig. 3, e.g. The "End."',
        "Then he left!",
        "Did he? version 1.5 is out",
        "A line.",
        "(In brackets.)",
        "3 more.",
    ]
    assert sentences("\n \n") == []


def test_principal_sentences_have_the_highest_rouge(library):
    pair = next(p for p in library if len(sentences(p.text)) > 8)
    parts = sentences(pair.text)
    scores = [rouge(s, "\n".join(parts[:i] + parts[i + 1 :])).rouge1 for i, s in enumerate(parts)]
    for ratio in (0.1, 0.3, 0.6):
        chosen = principal_sentences(parts, ratio=ratio)
        assert len(chosen) == max(1, round(ratio * len(parts))) and chosen == sorted(chosen)
        left = [scores[i] for i in range(len(parts)) if i not in chosen]
        assert min(scores[i] for i in chosen) >= max(left)
    assert principal_sentences(["a b", "a b", "b"], ratio=0.9) == [0, 1]
    assert principal_sentences(["one alone"]) == principal_sentences([]) == []
    with pytest.raises(ValueError, match="between 0 and 1"):
        principal_sentences(parts, ratio=1.0)


def test_gap_pairs_keep_every_token_once():
    parts, codes = ["One is.", "Two is.", "Three is.", "Four is."], {}

    def encode(text):
        return [codes.setdefault(word, len(codes) + 1) for word in text.replace(" ", " _").split()]

    source, target = gap_pair(parts, [1, 3], encode, mask=99)
    names = {code: word for word, code in codes.items()} | {99: "MASK"}
    assert " ".join(names[t] for t in source) == "One _is. MASK _Three _is. MASK"
    assert " ".join(names[t] for t in target) == "Two _is. _Four _is."
    kept, same = gap_pair(parts, [1, 3], encode, mask=99, kept=[3])
    assert list(same) == list(target)
    assert " ".join(names[t] for t in kept) == "One _is. MASK _Three _is. _Four _is."


def test_an_index_that_unpacks_to_far_more_is_given_up(tmp_path, monkeypatch):
    helper = tmp_path / "helper"
    helper.write_text("#!/bin/sh\nyes\n")
    helper.chmod(0o755)
    monkeypatch.setattr(summaries, "APT_HELPER", helper)
    (tmp_path / "a_Translation-en.xz").write_bytes(b"small")
    with opening_within(Budget(bytes=2e7)), pytest.raises(OverBudget, match="a_Translation-en.xz: its unpacked text"):
        package_descriptions(tmp_path / "none", tmp_path)
    helper.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(ValueError, match="a_Translation-en.xz cannot be unpacked: .* ended with status 3"):
        package_descriptions(tmp_path / "none", tmp_path)


def test_modules_nested_too_deep_are_passed_over(tmp_path):
    (tmp_path / "a.py").write_text("x = " + "-" * 200_000 + "1\n")
    assert list(summaries._documented(tmp_path / "a.py")) == []
