"""scikit-learn's 1797 handwritten digits of 8×8 pixels and 17 levels: real images that need no download."""

from __future__ import annotations

import numpy as np

LEVELS = 16  # the value of white


def read_digits() -> tuple[np.ndarray, np.ndarray]:
    """(images, labels) : (1797, 1, 8, 8) uint8 with values 0 … 16, and (1797,) int64.

    Raises ImportError naming the command where scikit-learn is missing.
    Source: Alpaydin & Kaynak, Optical Recognition of Handwritten Digits (UCI, 1998), its test part.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ImportError("the digits come with scikit-learn: pip install 'sciops[vision]'") from None
    digits = load_digits()
    return digits.images.astype(np.uint8)[:, None], digits.target.astype(np.int64)
