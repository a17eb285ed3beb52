"""A digest differs wherever anything that is read back differs, and nowhere else."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from sciops.files.digest import digest_of, first_difference, is_sealed, is_whole, read_sealed, sealed
from sciops.files.json_files import write_json

BASE = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1, 2])}


def test_nothing_that_is_read_back_may_differ():
    about = {"epochs": 3, "best": None}
    others = [
        (BASE | {"a": BASE["a"].reshape(3, 2)}, about),
        (BASE | {"a": BASE["a"].double()}, about),
        (BASE | {"a": BASE["a"].view(torch.int32)}, about),  # the same bytes
        (BASE | {"a": torch.nextafter(BASE["a"], torch.tensor(9.0))}, about),
        ({"c": BASE["a"], "b": BASE["b"]}, about),
        ({"a": BASE["b"], "b": BASE["a"]}, about),
        ({"a": BASE["a"]}, about),
        (BASE | {"c": torch.empty(0)}, about),
        (BASE | {"c": torch.empty(0, 3)}, about),
        (BASE, about | {"epochs": 2}),
        (BASE, about | {"epochs": 3.0}),
        (BASE, about | {"epochs": "3"}),
        (BASE, about | {"best": "null"}),
        (BASE, {"epochs": 3}),
        (BASE, [about]),
    ]
    found = {digest_of(arrays, said) for arrays, said in [(BASE, about), *others]}
    assert len(found) == len(others) + 1 and all(len(one) == 64 for one in found)


def test_order_memory_and_white_space_may():
    turned = {"b": BASE["b"], "a": BASE["a"].T.contiguous().T}  # other strides
    assert digest_of(BASE, {"x": 1, "y": [2]}) == digest_of(turned, json.loads('{ "y": [ 2 ],\n"x": 1 }'))
    rows = np.arange(6.0).reshape(2, 3)
    assert digest_of({"a": rows}) == digest_of({"a": np.asfortranarray(rows)}) != digest_of({"a": rows.astype(">f8")})


@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.complex128, torch.float8_e4m3fn, torch.int8])
def test_every_dtype_has_bytes(dtype):
    number = torch.tensor(1.0).to(dtype)
    assert digest_of({"a": number}) == digest_of({"a": number.clone()}) != digest_of({"a": torch.zeros_like(number)})


def test_a_sealed_record_is_whole_until_it_is_edited(tmp_path):
    record = sealed({"loss": 0.5, "points": (1, 2), "nothing": float("nan")}, BASE)
    assert is_sealed(record) and is_whole(record, BASE) and not is_whole(record) and not is_whole({"loss": 0.5})
    assert not is_whole(record | {"loss": 0.25}, BASE) and not is_whole(record | {"more": 1}, BASE)
    path = write_json(tmp_path / "record.json", sealed({"loss": 0.5, "points": (1, 2)}))
    assert read_sealed(path) == {"loss": 0.5, "points": [1, 2]}
    for text, told in (
        (path.read_text().replace("0.5", "0.25"), "changed since it was written"),
        ("{", "is damaged"),
        ("[1]", "holds no JSON object"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=told) as caught:
            read_sealed(path)
        assert "\n" not in str(caught.value)
    write_json(path, {"loss": 0.5})  # from before there was a digest
    assert read_sealed(path) == {"loss": 0.5}


def test_the_first_difference_is_named():
    saved = {"model": {"options": {"depth": 2, "modes": [3, 3]}}, "extra": {}}
    assert first_difference(json.loads(json.dumps(saved)), saved) == ""
    for change, told in (
        ({"depth": 3}, "model.options.depth is 3 there, 2 was saved"),
        ({"depth": 2.0}, "model.options.depth is 2.0 there, 2 was saved"),
        ({"modes": [3]}, "model.options.modes is [3] there, [3,3] was saved"),
        ({"width": 4}, "model.options.width is 4 there and was not saved"),
    ):
        found = {**saved, "model": {"options": saved["model"]["options"] | change}}
        assert first_difference(found, saved) == told
    assert first_difference({"model": saved["model"]}, saved) == "extra is gone, {} was saved"


def test_names_of_others_are_shown_in_one_line():
    difference = first_difference({"a\n\x1b[2J": 1, "n" * 900: 2}, {})
    assert difference == r"a \x1b[2J is 1 there and was not saved"
    assert len(first_difference({}, {"o": {"n" * 900: 2}})) < 120
