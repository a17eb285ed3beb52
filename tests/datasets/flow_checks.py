"""What every flow layout has to do: give back the written arrays lazily, and survive a round trip."""

import json
import pickle

import numpy as np
import pytest

from sciops.datasets import convert, grid_of, open_dataset

RNG = np.random.default_rng(0)


def notes_of(dataset):
    return " ".join(json.loads(dataset.attrs.get("notes", "[]")))


def check_holds(path, truth):
    """Every variable whole, in part, and after a journey to another process; lazily, and with no handle left open."""
    for key in (np.s_[:], np.s_[2], np.s_[[5, 1], ::2], np.s_[::-1, 3], np.s_[1:2, 1:3, [2, 0]], np.s_[3:3]):
        with open_dataset(path) as dataset:
            for one in (dataset, pickle.loads(pickle.dumps(dataset))):
                for name, values in truth.items():
                    assert not one[name].variable._in_memory and one[name].dtype == values.dtype
                    if one[name].ndim < 4 and key == np.s_[1:2, 1:3, [2, 0]]:
                        continue
                    assert np.array_equal(one[name][key].values, values[key]), (name, key)
    dataset = open_dataset(path)
    path.rename(path.with_name("moved"))
    with pytest.raises(FileNotFoundError):
        dataset[next(iter(truth))][0].load()
    path.with_name("moved").rename(path)


def check_round_trip(tmp_path, source, layout):
    with open_dataset(convert(source, tmp_path / f"{layout}-again", layout, overwrite=True)) as there:
        assert list(there.data_vars) == list(source.data_vars)
        for name, field in source.variables.items():
            assert np.array_equal(there[name].values, field.values) and there[name].dtype == field.dtype, name
            if name in source.data_vars:
                assert grid_of(there, name) == grid_of(source, name)
        for key in ("equation", "task", "state", "parameters", "boundary"):
            assert there.attrs.get(key) == source.attrs.get(key)
    return tmp_path / f"{layout}-again"
