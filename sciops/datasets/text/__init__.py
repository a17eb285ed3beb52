"""Texts: files and folders of them, real ones that are on many machines, and sequences of characters of a text.

The other modules of this folder hold tokenizers, tokens as torch data sets, texts with summaries and sequence tasks;
their names are in `sciops.datasets`.
"""

from sciops.datasets.text.corpora import CORPORA, Characters, characters, read_corpus, read_documents, read_text

__all__ = ["CORPORA", "Characters", "characters", "read_corpus", "read_documents", "read_text"]
