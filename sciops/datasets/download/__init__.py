"""Public data sets by name: downloads that are checked by their hash and resumed where they were interrupted."""

from sciops.datasets.download.fetching import fetch
from sciops.datasets.download.registry import PublicSet, RemoteFile, public_sets, read_registry

__all__ = ["PublicSet", "RemoteFile", "fetch", "public_sets", "read_registry"]
