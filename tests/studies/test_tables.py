import doctest

import numpy as np
import pytest

from studies.kit import tables
from studies.kit.tables import print_table, table

ROWS = [
    {"arm": "fno", "error": 0.00123, "seconds": {"step": 12}},
    {"arm": "multipole", "error": None, "seconds": {"step": 7}},
]


def test_columns_are_as_wide_as_their_cells_and_numbers_stand_on_the_right():
    lines = table(ROWS, {"": "arm", "error": "error:.1e", "ms": "seconds.step", "note": lambda row: row["arm"][::-1]})
    assert lines == [
        "             error  ms  note",
        "fno        1.2e-03  12  onf",
        "multipole        –   7  elopitlum",
    ]


def test_a_float_without_a_format_has_four_digits_whatever_its_kind():
    values = [np.float64(1 / 3), 1 / 3, np.float32(1 / 3)]
    assert table([{"x": value} for value in values], {"x": "x"})[1:] == ["0.3333"] * 3
    assert table([], {"name": "x", "n": "y"}) == ["name  n"]
    with pytest.raises(KeyError, match="y"):
        table([{"x": 1}], {"y": "y"})


def test_a_title_stands_on_a_line_of_its_own(capsys):
    print_table(ROWS[:1], {"arm": "arm"}, title="errors", indent=2)
    assert capsys.readouterr().out == "\nerrors\n  arm\n  fno\n"


def test_the_example_of_the_docstring():
    assert doctest.testmod(tables).failed == 0
