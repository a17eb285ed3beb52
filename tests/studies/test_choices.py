import pytest

from studies.kit.choices import require_known


def test_unknown_names_are_refused_with_the_known_ones():
    require_known("--arms", ("a", "two words"), {"a": 1, "two words": 2})
    require_known("--arms", (), "ab")
    with pytest.raises(ValueError, match=r"^--arms 'no arm' c: expected some of a, 'two words'$"):
        require_known("--arms", ("no arm", "a", "c"), ("a", "two words"))
    with pytest.raises(ValueError, match=r"^--arms \(none\): expected some of a, b$"):
        require_known("--arms", (), "ab", some=True)
