"""`validate` solves Darcy data again with the walls, sources and tensors that the file states."""

import json

import numpy as np
import pytest

from sciops.datasets import validate
from sciops.datasets.conventions import build_dataset
from sciops.grids import Grid
from sciops.pde import darcy

FLOW = {"boundary": {"x": ["dirichlet", "dirichlet"], "y": "neumann"}, "values": {"x": [1.0, 0.0]}}
CLOSED = {"boundary": "neumann"}


def stored(walls, *, tensor=False, wells=False, centering="node"):
    """Four samples in single precision, as a file holds them."""
    grid = Grid((24, 24), centering=centering)
    a = np.exp(np.random.default_rng(0).standard_normal((4, 2, 24, 24)))
    f = np.zeros(grid.shape)
    if wells:
        f[0, 0], f[-1, -1] = 1 / grid.weights()[0, 0], -1 / grid.weights()[-1, -1]
    a = a if tensor else a[:, 0]
    u = darcy.solve(a, grid, forcing=f, tensor=tensor, **walls).u
    dims = ("sample", "x", "y")
    names = {"a_x": a[:, 0], "a_y": a[:, 1]} if tensor else {"a": a}
    fields = {name: (dims, field.astype(np.float32), {}) for name, field in (names | {"u": u}).items()}
    fields |= {"f": (("x", "y"), f.astype(np.float32), {})} if wells else {}
    attrs = {} if wells else {"forcing": 0.0}
    return build_dataset(
        fields,
        grid,
        layout="native",
        equation="darcy",
        coefficient="values",
        labels="solved",
        walls=json.dumps(walls),
        **attrs,
    )


def faults(data):
    return [finding for finding in validate(data) if finding.severity != "note"]


@pytest.mark.parametrize("centering", ["node", "cell"])
@pytest.mark.parametrize(
    ("walls", "options"), [(FLOW, {}), (FLOW, {"tensor": True}), (CLOSED, {"wells": True}), (FLOW, {"wells": True})]
)
def test_stated_walls_are_solved_with(walls, options, centering):
    data = stored(walls, centering=centering, **options)
    assert faults(data) == []
    other = data.assign(u=data["u"] * 1.01)
    (finding,) = faults(other)
    assert "does not solve" in finding.message and finding.field == "u"


def test_other_walls_than_stated_are_found():
    data = stored(FLOW)
    data.attrs["walls"] = json.dumps(FLOW | {"values": {"x": [0.0, 1.0]}})
    assert "does not solve" in faults(data)[0].message
    for walls in ("{", json.dumps({"boundary": "open"}), json.dumps({"values": "high"}), json.dumps(3)):
        data.attrs["walls"] = walls
        (finding,) = faults(data)
        assert "make no Darcy problem" in finding.message and finding.severity == "error"


def test_a_component_that_is_not_positive_is_named():
    data = stored(FLOW, tensor=True)
    data["a_y"][2, 3, 4] = -5.0
    assert [(finding.field, finding.sample) for finding in faults(data)] == [("a_y", 2)]
