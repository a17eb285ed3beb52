"""Docstrings as the site sets them."""

import runpy

from documentation.pages import ROOT

typeset = runpy.run_path(str(ROOT / "docs" / "docstrings.py"))["typeset"]


def set_(text):
    return "\n".join(line for line in typeset(text.splitlines()) if line)


def test_no_character_of_a_formula_is_markup():
    assert set_("|k| ≤ K, *grid and x_j, a < b.") == r"\ \|k\| ≤ K, \*grid and x\_j, a \< b."


def test_names_between_backticks_are_code():
    assert set_("See `fit` and ``x = 1``.") == r"\ See \ ``fit``\ and \ ``x = 1``\ .".replace("\\ and", "\\  and")


def test_a_section_of_numpydoc_becomes_a_list_under_its_heading():
    out = set_("One line.\n\nParameters\n----------\nx, y : int\n    What x\n    is.\n**options\n    Others.\n")
    assert ".. rubric:: Parameters" in out and "   **x**, **y** : int\n       \\ What x is." in out
    assert r"   **\*\*options**" in out


def test_lines_of_the_short_form_are_the_same_list():
    out = set_("One line.\n\nx : the field, read\n    from left to right\nreturns : (batch,)   one number\n")
    assert "   **x**\n       \\ the field, read from left to right" in out
    assert "   **returns** : (batch,)\n       \\ one number" in out


def test_a_sentence_under_returns_stays_a_sentence():
    assert set_("Returns\n-------\nNothing at all.\n").endswith(r"\ Nothing at all.")


def test_indented_formulas_and_columns_stay_as_they_are():
    assert "   e = a   +  b" in set_("One.\n\n    e = a   +  b\n\nTwo.")
    assert "   one      1\n   two      2" in set_("one      1\ntwo      2")


def test_lists_examples_and_odd_backticks():
    assert set_("* one\n  more\n* two") == "* one more\n* two"
    assert set_(">>> 1 + 1\n2") == ">>> 1 + 1\n2"
    assert "``" not in set_("a ` b")
