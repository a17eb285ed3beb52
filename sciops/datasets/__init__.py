"""Data sets: opening any known layout, checking it, converting it, and handing it to torch.

Every opened data set is an `xarray.Dataset` over (sample, x, …), or (sample, time, x, …) where fields evolve, with true
positions and their centering, walls or periods, times and constants. Names load on first use: importing this room
imports neither xarray nor h5py.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "open_dataset": "readers",
    "READERS": "readers",
    "describe_arrays": "readers.arrays",
    "grid_of": "conventions",
    "build_dataset": "conventions",
    "with_phases": "phases",
    "fit_two_phase": "phases",
    "coarse_solution": "phases",
    "TwoPhaseFit": "phases",
    "validate": "validation",
    "Finding": "validation",
    "convert": "conversion",
    "WRITERS": "conversion",
    "check_well": "the_well_rules",
    "write_well_folder": "well_folder",
    "well_statistics": "well_folder",
    "SAMPLES": "samples",
    "write_sample": "samples",
    "describe": "description",
    "inventory": "inventories",
    "FieldDataset": "torch_data",
    "TensorFields": "torch_data",
    "TrajectoryDataset": "trajectories",
    "SpaceTimeDataset": "space_time",
    "Splits": "splits",
    "load_splits": "splits",
    "ImageDataset": "images",
    "load_images": "images",
    "TokenWindows": "token_data",
    "TokenSequences": "token_data",
    "open_tokens": "token_data",
    "write_tokens": "token_data",
    "tokenizer_for": "tokenizers",
    "load_tokenizer": "tokenizers",
    "encode_documents": "tokenizers",
    "read_text": "text",
    "read_documents": "text",
    "read_corpus": "text",
    "Summarised": "summaries",
    "docstrings": "summaries",
    "package_descriptions": "summaries",
    "split_summaries": "summaries",
    "sentences": "gap_sentences",
    "principal_sentences": "gap_sentences",
    "gap_pair": "gap_sentences",
    "Normalizer": "normalizers",
    "write_native": "native",
    "read_native": "native",
    "resolutions": "native",
    "content_hash": "native",
    "group_name": "native",
    "SequenceTask": "sequence_tasks",
    "copy": "sequence_tasks",
    "mqar": "sequence_tasks",
    "associative_recall": "sequence_tasks",
    "needle": "sequence_tasks",
    "pointer_chain": "tracking",
    "packed_pointers": "tracking",
    "overwrite": "tracking",
    "boxes": "box_world",
    "box_words": "box_world",
    "exact_match": "box_world",
    "fetch": "download",
    "public_sets": "download",
    "read_registry": "download",
}

__all__ = list(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"sciops.datasets.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'sciops.datasets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
