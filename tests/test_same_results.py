"""The script that compares two checkouts sees what differs, and not what depends on the machine."""

from __future__ import annotations

import math

from same_results import differences


def test_numbers_texts_and_structure_count_and_times_do_not():
    before = {"error": [0.1, 0.2], "seconds": 3.0, "arms": {"fno": {"verdict": "wins", "time_ms": 4.0}}}
    assert differences(before, {**before, "seconds": 9.0, "error": [0.1, 0.2 * (1 + 1e-9)]}, 1e-6) == []
    assert differences(before, {**before, "error": [0.1, 0.21]}, 1e-6) == ["error/1: 0.2 before, 0.21 after"]
    assert differences(before, {**before, "arms": {}}, 1e-6) == ["arms/fno/verdict: only before"]
    assert differences({"error": math.nan}, {"error": math.nan}, 1e-6) == []
    assert differences({"sound": True}, {"sound": False}, 1e-6) == ["sound: True before, False after"]
