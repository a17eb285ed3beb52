import doctest

import numpy as np
import pytest

from studies.kit import tables
from studies.kit.tables import print_table, table

ROWS = [
    {"arm": "fno", "error": 0.00123, "seconds": {"step": 0.012}},
    {"arm": "multipole", "error": None, "seconds": {"step": 0.007}, "note": "late"},
]


def test_columns_are_as_wide_as_their_cells_and_numbers_stand_on_the_right():
    lines = table(ROWS, "=arm; error:.1e; ms=1e3*seconds.step:.0f", ("note", lambda row: row["arm"][::-1]), "note")
    assert lines == [
        "             error  ms  note       note",
        "fno        1.2e-03  12  onf        –",
        "multipole        –   7  elopitlum  late",
    ]


def test_a_mapping_gives_its_keys_as_names():
    assert table({"sciops": {"ms": 2}, "pyamg": {"ms": 10}}, "name; ms") == ["name    ms", "sciops   2", "pyamg   10"]
    assert table({"a": 1.5}, "=name; s=value:.2f") == ["      s", "a  1.50"]


def test_a_float_without_a_format_has_four_digits_whatever_its_kind():
    values = [np.float64(1 / 3), 1 / 3, np.float32(1 / 3)]
    assert table([{"x": value} for value in values], "x")[1:] == ["0.3333"] * 3
    assert table([], "name; n") == ["name  n"]
    with pytest.raises(KeyError, match="no row of the table has 'y.z'"):
        table([{"x": 1}, {"y": 2}], "y.z")


def test_a_title_stands_on_a_line_of_its_own(capsys):
    print_table(ROWS[:1], "arm", title="errors", indent=2)
    print_table(ROWS[:1], "arm", title="")
    assert capsys.readouterr().out == "\nerrors\n  arm\n  fno\n\narm\nfno\n"


def test_the_example_of_the_docstring():
    assert doctest.testmod(tables).failed == 0
