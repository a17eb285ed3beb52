"""Files of tensors that others wrote: few enough, whole, and no pipes, whoever reads them."""

import json
import os

import numpy as np
import pytest
import torch

from sciops import Budget, build_model, load_model, save_model
from sciops._budget import OverBudget, opening_within
from sciops.datasets.speech import Utterance, joined, load_corpus, save_corpus
from sciops.models import read_config
from sciops.models.images import swin_weights
from sciops.training import load_checkpoint, save_checkpoint


def of_tensors(path, entries: bytes):
    header = b"{" + entries + b"}"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    return path


def many(path, name: bytes = b"data_offsets", count: int = 120_000):
    one = b'"%d":{"dtype":"U8","shape":[0],"' + name + b'":[0,0]}'
    return of_tensors(path, b",".join(one % i for i in range(count)))


def model_of(path):
    if not (path.parent / "config.json").exists():
        save_model(build_model("fno", width=2, depth=1, modes=(1, 1)), path.parent)
    os.replace(path, path.parent / "model.safetensors")
    return path.parent


READERS = {
    "checkpoint": load_checkpoint,
    "best of a run": lambda path, **options: load_model(path.parent, **options),
    "corpus": load_corpus,
    "model": lambda path, **options: load_model(model_of(path), **options),
    "config": lambda path, **options: read_config(model_of(path), **options),
    "swin": swin_weights.swin_options,
}


@pytest.mark.parametrize("reader", READERS)
def test_a_file_of_very_many_tensors_is_refused(reader, tmp_path):
    """Before the library takes 1.3 GB to read what the header says."""
    with pytest.raises(OverBudget, match=r"\.safetensors: its header takes 1\.2e\+05 objects .*Budget\(objects="):
        READERS[reader](many(tmp_path / "best.safetensors"))
    file = many(tmp_path / "best.safetensors", count=20)
    with pytest.raises(OverBudget, match=r"takes 20 objects .* more than the 10 that"):
        READERS[reader](file, budget=Budget(objects=10))


def test_escapes_hide_no_tensor(tmp_path):
    file = many(tmp_path / "best.safetensors", b"data\\u005foffsets", 20)
    with opening_within(Budget(objects=10)), pytest.raises(OverBudget, match="takes 19 objects"):
        load_checkpoint(file)


@pytest.mark.parametrize("reader", [name for name in READERS if name != "best of a run"])  # to which it is not there
def test_what_is_no_regular_file_is_not_opened(reader, tmp_path):
    os.mkfifo(tmp_path / "best.safetensors")
    with pytest.raises(ValueError, match=r"\.safetensors is not a regular file"):
        READERS[reader](tmp_path / "best.safetensors")


@pytest.mark.parametrize(
    "entries",
    [
        b'"a":{"dtype":"F32","shape":[0,4611686018427387904],"data_offsets":[0,0]}',
        b'"a":{"dtype":"U8","shape":[' + b"0," * 99 + b'0],"data_offsets":[0,0]}',
        b'"a":{"dtype":"F4","shape":[0],"data_offsets":[0,0]}',
        b'"a":[]',
        b'"a":' + b"[" * 5000,
        b'"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}',
        b"\xff",
    ],
)
@pytest.mark.parametrize("read", [load_checkpoint, load_corpus])
def test_absurd_headers_are_one_line(read, entries, tmp_path):
    with pytest.raises(ValueError, match=r"a\.bin") as caught:
        read(of_tensors(tmp_path / "a.bin", entries))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 800


def test_a_corpus_that_does_not_hold_together_is_refused_although_its_digest_is_right(tmp_path):
    one = Utterance(np.zeros(20, np.float32), 8000, "a b", "x", "a b", ("p", "q"), np.array([0, 9]))
    corpus = joined([one, one])
    for changed in (
        {"ends": np.array([10**9, 40])},
        {"ends": np.array([20.0, 40.0])},
        {"phoneme_ends": np.array([3, 2])},
        {"phonemes": np.array([0, 1, 7, -1], np.int32)},
        {"texts": ("one",)},
        {"texts": (1, 2)},
        {"factors": {"pitch": [1]}},
        {"sample_rate": 0},
    ):
        path = save_corpus(type(corpus)(**{**vars(corpus), **changed}), tmp_path / "a")
        with pytest.raises(ValueError, match="a: not a whole speech corpus .*; make it again"):
            load_corpus(path)
    assert load_corpus(save_corpus(corpus, tmp_path / "a")).hash() == corpus.hash()


def test_state_that_unpacks_to_far_more_than_its_text_is_refused(tmp_path):
    path = save_checkpoint(tmp_path / "a", {"a": torch.ones(2)}, {"list": [[]] * 400_000})
    assert len(json.dumps([[]] * 400_000)) < 2e6
    with pytest.raises(OverBudget, match=r"a: its JSON takes 7\.68e\+07 bytes of memory, more than the 2e\+07"):
        load_checkpoint(path, budget=Budget(bytes=2e7))
    assert len(load_checkpoint(path)[1]["list"]) == 400_000
