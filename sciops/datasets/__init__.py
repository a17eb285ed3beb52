"""Data sets: opening any known layout, checking it, converting it, and handing it to torch.

Every opened data set is an `xarray.Dataset` over (sample, x, …), or (sample, time, x, …) where fields evolve, with true
positions and their centering, walls or periods, times and constants. Names load on first use: importing this package
imports neither xarray nor h5py.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_NAMES = {
    "open_dataset": "formats",
    "READERS": "formats",
    "describe_arrays": "formats.arrays",
    "grid_of": "conventions",
    "build_dataset": "conventions",
    "with_phases": "fields.phases",
    "fit_two_phase": "fields.phases",
    "coarse_solution": "fields.phases",
    "TwoPhaseFit": "fields.phases",
    "validate": "checks.validation",
    "Finding": "checks.validation",
    "convert": "conversion",
    "WRITERS": "formats",
    "check_well": "formats.the_well.rules",
    "write_well_folder": "formats.the_well.folder",
    "well_statistics": "formats.the_well.folder",
    "SAMPLES": "formats.samples",
    "write_sample": "formats.samples",
    "describe": "checks.description",
    "inventory": "checks.inventories",
    "FieldDataset": "fields.torch_data",
    "FreshFields": "fields.fresh",
    "TensorFields": "fields.torch_data",
    "TrajectoryDataset": "fields.trajectories",
    "SpaceTimeDataset": "fields.space_time",
    "Splits": "fields.splits",
    "load_splits": "fields.splits",
    "ImageDataset": "images",
    "load_images": "images",
    "TokenWindows": "text.token_data",
    "TokenSequences": "text.token_data",
    "open_tokens": "text.token_data",
    "write_tokens": "text.token_data",
    "tokenizer_for": "text.tokenizers",
    "load_tokenizer": "text.tokenizers",
    "encode_documents": "text.tokenizers",
    "read_text": "text.corpora",
    "read_documents": "text.corpora",
    "read_corpus": "text.corpora",
    "Summarised": "text.summaries",
    "docstrings": "text.summaries",
    "package_descriptions": "text.summaries",
    "split_summaries": "text.summaries",
    "sentences": "text.gap_sentences",
    "principal_sentences": "text.gap_sentences",
    "gap_pair": "text.gap_sentences",
    "Normalizer": "fields.normalizers",
    "write_native": "native",
    "read_native": "native",
    "resolutions": "native",
    "content_hash": "native",
    "group_name": "native",
    "SequenceTask": "text.sequence_tasks",
    "copy": "text.sequence_tasks",
    "mqar": "text.sequence_tasks",
    "associative_recall": "text.sequence_tasks",
    "needle": "text.sequence_tasks",
    "pointer_chain": "text.tracking",
    "block_pointers": "text.tracking",
    "packed_pointers": "text.tracking",
    "overwrite": "text.tracking",
    "boxes": "text.box_world",
    "box_statements": "text.box_world",
    "box_words": "text.box_world",
    "exact_match": "text.box_world",
    "fetch": "download.fetching",
    "public_sets": "download.registry",
    "read_registry": "download.registry",
    "load_public": "download.public",
}

__all__ = list(_NAMES)

if TYPE_CHECKING:  # for editors and type checkers, which do not run `__getattr__`
    from sciops.datasets.checks.description import describe
    from sciops.datasets.checks.inventories import inventory
    from sciops.datasets.checks.validation import Finding, validate
    from sciops.datasets.conventions import build_dataset, grid_of
    from sciops.datasets.conversion import convert
    from sciops.datasets.download.fetching import fetch
    from sciops.datasets.download.public import load_public
    from sciops.datasets.download.registry import public_sets, read_registry
    from sciops.datasets.fields.fresh import FreshFields
    from sciops.datasets.fields.normalizers import Normalizer
    from sciops.datasets.fields.phases import TwoPhaseFit, coarse_solution, fit_two_phase, with_phases
    from sciops.datasets.fields.space_time import SpaceTimeDataset
    from sciops.datasets.fields.splits import Splits, load_splits
    from sciops.datasets.fields.torch_data import FieldDataset, TensorFields
    from sciops.datasets.fields.trajectories import TrajectoryDataset
    from sciops.datasets.formats import READERS, WRITERS, open_dataset
    from sciops.datasets.formats.arrays import describe_arrays
    from sciops.datasets.formats.samples import SAMPLES, write_sample
    from sciops.datasets.formats.the_well.folder import well_statistics, write_well_folder
    from sciops.datasets.formats.the_well.rules import check_well
    from sciops.datasets.images import ImageDataset, load_images
    from sciops.datasets.native import content_hash, group_name, read_native, resolutions, write_native
    from sciops.datasets.text.box_world import box_statements, box_words, boxes, exact_match
    from sciops.datasets.text.corpora import read_corpus, read_documents, read_text
    from sciops.datasets.text.gap_sentences import gap_pair, principal_sentences, sentences
    from sciops.datasets.text.sequence_tasks import SequenceTask, associative_recall, copy, mqar, needle
    from sciops.datasets.text.summaries import Summarised, docstrings, package_descriptions, split_summaries
    from sciops.datasets.text.token_data import TokenSequences, TokenWindows, open_tokens, write_tokens
    from sciops.datasets.text.tokenizers import encode_documents, load_tokenizer, tokenizer_for
    from sciops.datasets.text.tracking import block_pointers, overwrite, packed_pointers, pointer_chain


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(f"sciops.datasets.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'sciops.datasets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
