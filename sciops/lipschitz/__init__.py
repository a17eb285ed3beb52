"""How far a map can stretch: certified spectral norms of layers, 1-Lipschitz layers, bounds of whole models."""

from sciops.lipschitz.bracket import Bracket, largest_of
from sciops.lipschitz.dense import dense_norm
from sciops.lipschitz.fourier import fourier_norm
from sciops.lipschitz.gram import gram_bracket

__all__ = [
    "Bracket",
    "dense_norm",
    "fourier_norm",
    "gram_bracket",
    "largest_of",
]
