"""Words of a text as ROUGE counts them."""

from __future__ import annotations

import re

_WORD = re.compile(r"[a-z0-9]+")


def words(text: str) -> list[str]:
    """The runs of a–z and 0–9 of the text in lower case; everything else separates. No stemmer, no stop words.

    These are the tokens of the package rouge_score without its stemmer; other letters than a–z separate too.

    >>> words("Don't re-read the 2nd file.")
    ['don', 't', 're', 'read', 'the', '2nd', 'file']
    """
    return _WORD.findall(text.lower())
