"""torch.save files of lists, tuples and nested dictionaries: their arrays, and the reason where something is none."""

import pickle
import re

import numpy as np
import pytest
import torch

from sciops.datasets import describe_arrays, open_dataset
from sciops.datasets.formats import probe
from sciops.grids import Grid

GRID = Grid((6, 4), ((0, 2), (-1, 1)), "periodic")


def _tensors(count, *shape):
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(0))


def _ragged():
    return torch.nested.as_nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)


def test_a_list_of_samples_opens_with_the_samples_along_its_first_axis(tmp_path):
    """The form of neuraloperator's sets of cars and surfaces, where all samples have one shape."""
    a, u, path = _tensors(5, 6, 4), _tensors(5, 2, 6, 4), tmp_path / "list.pt"
    torch.save([{"a": x, "more": {"u": y}, "number": i} for i, (x, y) in enumerate(zip(a, u))], path)
    assert "a float32[5, 6, 4], more/u float32[5, 2, 6, 4]" in probe(path).describe()
    flow = {"dims": ("sample", "channel", "x", "y"), "components": ("vx", "vy"), "array": "more/u"}
    describe_arrays(path, {"a": ("sample", "x", "y"), "flow": flow}, grid=GRID)
    dataset = open_dataset(path)
    for key in (np.s_[:], np.s_[1], np.s_[[4, 0], 1:, ::-1], np.s_[0, 0, 0]):
        for one in (dataset, pickle.loads(pickle.dumps(dataset))):
            assert np.array_equal(one["a"][key].values, a.numpy()[key])
            assert np.array_equal(one["vy"][key].values, u[:, 1].numpy()[key])


@pytest.mark.parametrize(
    ("content", "arrays"),
    [
        ({"train": {"x": torch.ones(3, 6), "y": torch.ones(3)}, "n": 3}, {"train/x": (3, 6), "train/y": (3,)}),
        ((torch.ones(3, 6), torch.ones(3)), {"0": (3, 6), "1": (3,)}),
        ([torch.ones(3, 6), torch.ones(3, 6)], {"(the list)": (2, 3, 6)}),
        ({"x": [torch.ones(6), torch.ones(6)]}, {"x": (2, 6)}),
        ({"data": ({"x": torch.ones(6)}, torch.ones(3))}, {"data/0/x": (6,), "data/1": (3,)}),
        (torch.ones(2, 6), {"(the tensor)": (2, 6)}),
        ([1, "words", None], {}),
    ],
)
def test_names_of_nested_tensors(tmp_path, content, arrays):
    torch.save(content, tmp_path / "a.pt")
    found = probe(tmp_path / "a.pt")
    assert {name: entry.shape for name, entry in found.arrays.items()} == arrays and found.others == {}


def test_two_fields_in_a_list_are_components(tmp_path):
    a, u = _tensors(2, 5, 6, 4)
    torch.save([a, u], tmp_path / "a.pt")
    about = {"dims": ("channel", "sample", "x", "y"), "components": ("a", "u"), "array": "(the list)"}
    describe_arrays(tmp_path / "a.pt", {"both": about}, grid=GRID)
    assert np.array_equal(open_dataset(tmp_path / "a.pt")["u"].values, u.numpy())


@pytest.mark.parametrize(
    ("content", "name", "why"),
    [
        (
            [{"a": torch.ones(5, 3)}, {"a": torch.ones(4, 3)}],
            "a",
            r"2 samples of different .* float32\[5, 3\], float32\[4",
        ),
        (
            [torch.ones(5, 3), torch.ones(4, 3)],
            "(the list)",
            r"2 samples of different shapes .*interpolate them onto one",
        ),
        ({"p": [torch.ones(5), torch.ones(4)]}, "p", "2 samples of different shapes or types"),
        ([{"a": torch.ones(5)}, {}], "a", "missing in 1 of the 2 dictionaries"),
        ([{"a": [torch.ones(5)] * 2}] * 2, "a", "a list in each dictionary of a list"),
        ({"a": torch.eye(3).to_sparse()}, "a", r"a sparse tensor \(save it with to_dense"),
        ({"a": _ragged()}, "a", r"a nested tensor \(save a list"),
        ([{"a": [_ragged()]}] * 2, "a/0", r"a nested tensor \(save a list"),
        ({"a": torch.ones(3, device="meta")}, "a", "of the meta device, which has no numbers"),
    ],
)
def test_what_is_not_one_array_is_said_with_the_reason(tmp_path, content, name, why):
    torch.save(content, tmp_path / "a.pt")
    assert list(probe(tmp_path / "a.pt").others) == [name] and probe(tmp_path / "a.pt").arrays == {}
    with pytest.raises(ValueError, match=why) as caught:
        open_dataset(tmp_path / "a.pt")
    assert "describe_arrays(" not in str(caught.value) and "\n" not in str(caught.value)


def test_point_clouds_are_not_described_by_what_they_share(tmp_path):
    cars = [
        {"vertices": torch.rand(50 + i, 3), "pressure": torch.rand(50 + i), "inlet": torch.rand(3)} for i in range(4)
    ]
    torch.save(cars, tmp_path / "cars.pt")
    with pytest.raises(ValueError, match=r"inlet float32\[4, 3\].*vertices, 4 samples of different shapes") as caught:
        open_dataset(tmp_path / "cars.pt")
    assert "cannot be described as it is" in str(caught.value) and "describe_arrays(" not in str(caught.value)


def test_positions_of_points_of_one_count_are_not_taken_for_fields(tmp_path):
    """Cars whose meshes have as many vertices each: their sizes would fit a grid of three points."""
    cars = [{"vertices": torch.rand(50, 3), "press": torch.rand(50), "speed": torch.rand(1)} for _ in range(4)]
    torch.save(cars, tmp_path / "cars.pt")
    with pytest.raises(ValueError, match=r"vertices\[4, 50, 3\] holds positions of points, and nothing says") as caught:
        open_dataset(tmp_path / "cars.pt")
    assert "interpolate the fields onto one" in str(caught.value) and "describe_arrays(" not in str(caught.value)
    torch.save([{"mesh_points": torch.rand(50, 2), "data": torch.rand(50, 7)}] * 4, tmp_path / "a.pt")
    with pytest.raises(ValueError, match=r"mesh_points\[4, 50, 2\] holds positions of points, at which data is given"):
        open_dataset(tmp_path / "a.pt")


@pytest.mark.parametrize("name", ["a", "y", "more/x"])
def test_the_description_proposed_for_a_list_of_dictionaries_has_the_samples_first(tmp_path, name):
    u, path = _tensors(3, 6, 4), tmp_path / "a.pt"
    items = [{"more": {"x": one}} if name == "more/x" else {name: one} for one in u]
    torch.save(items, path)
    with pytest.raises(ValueError, match=r"\('sample', 'x', 'y'\)") as caught:
        open_dataset(path)
    call = re.search(r"sciops\.datasets\.(describe_arrays\(.*\)), which writes", str(caught.value))[1]
    eval(call.replace(repr(path.name), "path"), {"describe_arrays": describe_arrays, "Grid": Grid, "path": path})
    dataset = open_dataset(path)
    (field,) = dataset.data_vars.values()
    assert field.dims == ("sample", "x", "y") and np.array_equal(field.values, u.numpy())


def test_types_that_numpy_lacks_and_lists_in_a_known_layout(tmp_path):
    u = _tensors(3, 6).to(torch.bfloat16).requires_grad_()
    torch.save({"u": u, "psi": torch.complex(*_tensors(2, 3, 6)).conj()}, tmp_path / "a.pt")
    psi = torch.load(tmp_path / "a.pt", weights_only=True)["psi"]
    describe_arrays(tmp_path / "a.pt", dict.fromkeys(("u", "psi"), ("sample", "x")), grid=Grid(6, 1.0, "periodic"))
    dataset = open_dataset(tmp_path / "a.pt")
    assert dataset["u"].dtype == np.float32 and np.array_equal(dataset["u"].values, u.detach().float().numpy())
    assert np.array_equal(dataset["psi"].values, psi.resolve_conj().numpy())
    torch.save([{"x": torch.ones(8, 8), "y": torch.ones(8, 8)}] * 3, tmp_path / "darcy.pt")  # Darcy's shapes, in a list
    with pytest.raises(ValueError, match="numbers do not say what their axes mean"):
        open_dataset(tmp_path / "darcy.pt")
