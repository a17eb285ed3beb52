from dataclasses import asdict

import numpy as np
import pytest

from sciops.evaluation import Spread, spread


def test_mean_and_deviation_over_seeds():
    found = spread([1.0, 2.0, 4.0])
    assert (found.mean, found.deviation) == pytest.approx((7 / 3, np.std([1, 2, 4], ddof=1)))
    assert (found.low, found.high, found.seeds, found.bar) == (1.0, 4.0, 3, found.deviation)
    assert f"{found:.2f}" == "2.33 ± 1.53" and f"{spread([0.5, 0.75]):.1%}" == "62.5% ± 17.7%"


def test_one_seed_has_no_spread():
    found = spread([0.25])
    assert found.deviation is None and f"{found:.2f}" == "0.25 (one seed)" and np.isnan(found.bar)


def test_a_training_that_diverged():
    assert f"{spread([0.5, np.inf]):.1f}" == "inf ± inf"


def test_another_unit_and_back_from_a_row():
    for values in ([1.0, 3.0], [2.0]):
        found, per_cent = spread(values), spread([100 * v for v in values])
        assert found.times(100) == per_cent and Spread.read(asdict(found) | {"arm": "fno"}) == found


@pytest.mark.parametrize("bad", [[], [[1.0, 2.0]]])
def test_what_is_not_one_number_per_seed_is_refused(bad):
    with pytest.raises(ValueError, match="one number per seed"):
        spread(bad)
