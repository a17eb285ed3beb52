"""What the solver moves for a sample, against counts by hand and the memory that it allocates."""

import numpy as np
import pytest

from studies.solver_speed import traffic

batch = pytest.importorskip("sciops.pde.darcy.compiled.batch")


def test_a_cycle_and_an_iteration_by_hand():
    """9 unknowns and 1: smoothing passes of 3, 6, 6, 6, 6 numbers, 1 + 9 down, 2 + 9 up, 6 on the last level."""
    cycle = 4 * (9 * (3 + 4 * 6) + (9 + 9) + (18 + 9) + 6)
    assert traffic._cycle([9, 1], 0, zero=True) == cycle
    assert traffic.bytes_moved(3, 5) - traffic.bytes_moved(3, 4) == cycle + 9 * (13 * 8 + 3 * 4)


def test_what_is_moved_grows_as_the_unknowns():
    a, b = (traffic.bytes_moved(n, 7) / n**2 for n in (127, 1023))
    assert 2000 < a and abs(a / b - 1) < 0.05


@pytest.mark.parametrize("unknowns", [41, 83])
def test_the_workspace_is_the_solver_s_own_but_for_halos(unknowns):
    _, _, work, fields = batch._memory(unknowns, unknowns, 0, False)
    allocated = work.nbytes + sum(field.nbytes for field in fields) + 8 * unknowns**2  # b
    assert 0.8 * allocated < traffic.workspace(unknowns) < allocated


def test_the_rate_of_a_cache():
    assert np.isfinite(traffic.rate_within(1e5, repeats=3, rounds=2))
