"""Checks of single options: what passes, and the line for what does not."""

import math

import numpy as np
import pytest
import torch

from sciops import Grid
from sciops.evaluation import rollout
from sciops.pde import darcy
from sciops.plotting import plot_field
from sciops.spectral import aliasing_error
from sciops.values import COUNT, WHOLE, check_whole

WRONG = [0, -1, True, 2.0, 1.5, math.nan, math.inf, None, "2", (2,), np.float64(2), np.ones(2, int)]


@pytest.mark.parametrize("value", [1, 7, np.int32(3), np.uint8(3), torch.tensor(3)])
def test_integers_of_python_numpy_and_torch_are_whole(value):
    check_whole(n=value)
    WHOLE("n", value)
    COUNT("n", value)


@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_anything_else_is_refused_in_a_line_that_names_the_argument(value):
    for call in (lambda: check_whole(good=3, n=value), lambda: WHOLE("n", value)):
        with pytest.raises(ValueError, match="^n=.*: expected a whole number of at least 1(, such as 2)?$"):
            call()


def test_the_least_one_counts():
    check_whole(0, n=0)
    COUNT("n", 0)
    with pytest.raises(ValueError, match="^n=98: expected a whole number of at least 99$"):
        check_whole(99, n=98)


def test_a_whole_number_with_a_point_is_shown_without_it():
    with pytest.raises(ValueError, match="^n=1000.0: expected a whole number of at least 1, such as 1000$"):
        check_whole(n=1e3)
    with pytest.raises(ValueError, match="^n=1.0: expected a whole number of at least 2$"):
        check_whole(2, n=1.0)


@pytest.mark.parametrize("value", [2.0, math.nan, None, True, "2"], ids=repr)
def test_public_functions_take_no_other_number(value):
    a = np.ones((5, 5))
    line = "expected a whole number of at least"
    with pytest.raises(ValueError, match=f"^max_iterations=.*: {line} 1(, such as 2)?$"):
        darcy.solve(a, max_iterations=value)
    with pytest.raises(ValueError, match=f"^most=.*: {line} 1(, such as 2)?$"):
        plot_field(a, Grid((5, 5)), most=value)
    with pytest.raises(ValueError, match=f"^steps=.*: {line} 1(, such as 2)?$"):
        rollout(torch.nn.Identity(), torch.zeros(1, 1, 4), steps=value)
    with pytest.raises(ValueError, match=f"^factor=.*: {line} 2(, such as 2)?$"):
        aliasing_error(torch.nn.Identity(), torch.zeros(1, 1, 8), Grid((8,), centering="periodic"), 2, factor=value)
