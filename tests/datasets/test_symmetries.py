"""What data sets state of the symmetries of their problem; what they do not state is refused by name."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from data_gen import darcy
from sciops.datasets import FieldDataset, SpaceTimeDataset, TrajectoryDataset, build_dataset, load_splits, write_native
from sciops.datasets.fields.joined import JoinedDataset
from sciops.grids import Grid
from sciops.models import SymmetryAveraged, build_model, check_operator
from sciops.symmetry import elements_of
from sciops.training import TrainConfig, fit

STEADY, EVOLVES = ("sample", "x", "y"), ("sample", "time", "x", "y")
GRID, BOX = Grid((6, 6)), Grid((6, 6), 1.0, "periodic")


def steady(equation: str = "poisson", grid: Grid = GRID, names=("f", "u"), **attrs):
    values = np.random.default_rng(0).standard_normal((4, *grid.shape))
    fields = {name: (STEADY, values + i, {}) for i, name in enumerate(names)}
    return build_dataset(fields, grid, layout="native", equation=equation, **attrs)


def flow(equation: str = "navier_stokes", grid: Grid = BOX, names=("w",), about=None, **attrs):
    values = np.random.default_rng(0).standard_normal((4, 4, *grid.shape))
    fields = {name: (EVOLVES, values + i, (about or {}).get(name, {})) for i, name in enumerate(names)}
    given = {"times": np.arange(4.0), "state": tuple(names), "boundary": {"x": "periodic", "y": "periodic"}} | attrs
    return build_dataset(fields, grid, layout="native", equation=equation, **given)


def count(data) -> int:
    try:
        return len(data.symmetry.elements(data.grid, "allowed"))
    except ValueError:
        return 1


def why(data) -> str:
    with pytest.raises(ValueError) as caught:
        data.symmetry.elements(data.grid, "allowed")
    return str(caught.value)


def test_what_is_not_stated_is_refused_until_it_is_declared(tmp_path):
    data = FieldDataset(steady("mystery"), inputs=("f",))
    assert "the symmetries of the equation (mystery) are not known; declare the kinds of all channels" in why(data)
    declared = {"f": "scalar", "u": "scalar"}
    assert count(FieldDataset(steady("mystery"), inputs=("f",), kinds=declared)) == 8
    assert count(FieldDataset(steady("mystery"), inputs=("f",), kinds={"u": "scalar"})) == 1  # not of all
    walls = {"boundary": {"x": "wall-open", "y": "wall"}}  # what the file states still counts
    assert count(FieldDataset(steady("mystery", **walls), inputs=("f",), kinds=declared)) == 2
    with pytest.raises(ValueError, match="kinds has 'q': expected some of the channels, f, u"):
        FieldDataset(steady(), inputs=("f",), kinds={"q": "scalar"})
    with pytest.raises(ValueError, match="'vector' is not the kind of a channel"):
        FieldDataset(steady(), inputs=("f",), kinds={"f": "vector"})
    path = write_native(tmp_path / "mystery.h5", steady("mystery"))
    parts = load_splits(path, inputs=("f",), kinds=declared, validation=1, test=1)
    assert count(parts.train) == 8 and count(parts.train.subset([0])) == 8
    marked = steady("mystery")
    for name in ("f", "u"):
        marked[name].attrs["kind"] = "scalar"
    assert count(load_splits(write_native(tmp_path / "marked.h5", marked), inputs=("f",)).train) == 8


def test_channels_walls_forcing_and_places_that_are_not_known():
    odd = FieldDataset(steady(names=("f", "q", "u")), inputs=("f", "q"))
    assert "what becomes of channel 'q': declare its kind, q='scalar', " in why(odd)
    unwalled = FieldDataset(steady("wave", names=("a", "u")), inputs=("a",))
    assert "the file does not state its walls" in why(unwalled)
    assert "the forcing is not stated" in why(TrajectoryDataset(flow()))
    assert count(TrajectoryDataset(flow(forcing="none"))) == 8
    assert count(TrajectoryDataset(flow(), kinds={"w": "pseudoscalar"})) == 8
    assert "how the forcing (stirred) changes" in why(TrajectoryDataset(flow(forcing="stirred")))
    assert "the grid is spherical" in why(TrajectoryDataset(flow(forcing="none", grid_type="spherical")))
    assert "(mask_rock) is not compared" in why(FieldDataset(steady(names=("f", "mask_rock", "u")), inputs=("f",)))
    assert "the first axis of the grid is time" in why(SpaceTimeDataset(TrajectoryDataset(flow(), horizon=None)))
    shifted = {"vx": {"grid": json.dumps(Grid((6, 6), ((0, 1), (0.05, 1.05)), "periodic").to_dict())}}
    staggered = TrajectoryDataset(flow("navier_stokes_velocity", names=("vx", "vy"), about=shifted))
    assert "vx lies on a grid of its own (staggered)" in why(staggered)


def test_velocities_by_their_names_or_attributes_and_gravity():
    data = TrajectoryDataset(flow("navier_stokes_velocity", names=("vx", "vy", "particles")), history=2)
    frame = ("velocity[0]:x", "velocity[0]:y", "scalar")
    assert data.symmetry.inputs == (*frame, "velocity[1]:x", "velocity[1]:y", "scalar")
    assert data.symmetry.outputs == frame and count(data) == 8
    lonely = TrajectoryDataset(flow("navier_stokes_velocity", names=("vx", "vy")), state=("vx",))
    exchange = elements_of("transpose", 2)[1]
    assert count(lonely) == 4 and "would be velocity[0]:y" in lonely.symmetry.reason(exchange, lonely.grid)
    heavy = TrajectoryDataset(flow("navier_stokes_velocity", names=("vx", "vy"), parameters={"buoyancy_y": 0.5}))
    assert count(heavy) == 2 and heavy.symmetry.vectors == {"buoyancy_y": (0.0, 0.5)}
    parts = {name: {"part_of": "flow", "component": name[-1]} for name in ("p_x", "p_y")}
    named = TrajectoryDataset(flow("compressible_navier_stokes", names=("p_x", "p_y"), about=parts))
    assert named.symmetry.outputs == ("flow[0]:x", "flow[0]:y") and count(named) == 8


def test_hidden_fields_of_the_chosen_samples_are_compared_lazily_too(tmp_path):
    source = steady("darcy", names=("a", "f", "u"), forcing=1.0)
    source["f"].values[0] = 1.0  # sample 0 has a constant source, the others have not
    path = write_native(tmp_path / "f.h5", source)
    for one in (source, path):
        assert count(FieldDataset(one, samples=[0])) == 8
        data = FieldDataset(one, memory_limit=0)
        assert count(data.subset([0])) == 8 and count(data) == 1
        assert "it changes f, which is not among the inputs" in why(data)


@pytest.mark.parametrize("walls", ["flow_cell", "five_spot"])
def test_fit_and_the_averaged_prediction_ask_the_file(tmp_path, capsys, walls):
    law = {"law": "lognormal", "resolutions": (9,), "modes": 5, "samples": 12, "progress": False}
    forcing = 0.0 if walls == "flow_cell" else 1.0
    config = replace(darcy.PRESETS["quick"], walls=walls, forcing=forcing, output=tmp_path / "d.h5", **law)
    data = load_splits(darcy.run(config))
    train = TrainConfig(epochs=1, batch_size=4, progress=False, device="cpu")
    side = {
        "flow_cell": "the low y side \\(neumann\\) would be the low x side \\(dirichlet, values 1\\)",
        "five_spot": "it changes f, which is not among the inputs",
    }[walls]
    model = build_model("fno", width=4, depth=1, modes=(2, 2))
    with pytest.raises(ValueError, match=f"augment='square'.*not a symmetry here, .*{side}.*pass augment='"):
        fit(model, data, replace(train, augment="square"))
    with pytest.raises(ValueError, match=f"group='square'.*{side}"):
        SymmetryAveraged(model, "square", symmetry=data.train.symmetry)(data.test.x, data.test.grid)
    fit(model, data, replace(train, augment="allowed"))
    averaged = SymmetryAveraged(model, "allowed", symmetry=data.train.symmetry).eval()
    table = check_operator(averaged, data.train.grid, in_channels=1)
    assert table["symmetries"].passed and table["symmetries"].value < 1e-5
    plain = check_operator(model, data.train.grid, symmetry=data.train.symmetry)["symmetries"]
    assert plain.passed is None and plain.value > 1e-3
    assert "not known: pass symmetry" in check_operator(model, data.train.grid)["symmetries"].note


def test_joined_files_have_the_symmetries_of_all(tmp_path):
    parts = []
    for i, open_side in enumerate(("wall", "wall", "open")):
        source = steady(boundary={"x": "wall", "y": open_side}, wall="u = 0")
        parts.append(FieldDataset(write_native(tmp_path / f"{i}.h5", source), inputs=("f",)))
    assert count(JoinedDataset(parts[:2])) == 8
    assert "differ between the parts" in why(JoinedDataset(parts))
