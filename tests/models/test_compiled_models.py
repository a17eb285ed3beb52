"""torch.compile(model) computes what the model computes, forwards and backwards."""

from __future__ import annotations

import pytest
import torch

import sciops

# torch's compiler trips over its own deprecations when warnings are errors; what it says about this package must not
# pass, such as that it traces through a cached function
pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.filterwarnings("error:Dynamo detected"),
]

CASES = {
    "fno": ("fno", {"modes": (4, 4), "local": True}, "node"),
    "fno diagonal": ("fno", {"modes": (4, 4), "weights": "diagonal"}, "periodic"),
    "sine-cosine": ("fno", {"modes": (4, 4), "basis": "sine-cosine", "wall": "zero", "dealias": 2}, "node"),
    "mano": ("mano", {"heads": 1, "levels": 2}, "node"),
}


@pytest.mark.parametrize("case", CASES)
def test_compiled_model_has_the_same_values_and_gradients(case):
    name, options, centering = CASES[case]
    grid = sciops.Grid((9, 12), centering=centering)
    torch.manual_seed(0)
    model = sciops.build_model(name, in_channels=1, out_channels=1, width=4, depth=1, grid=grid, **options).double()
    x = torch.randn(2, 1, *grid.shape, dtype=torch.float64)

    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager")
    results = []
    for run in (model, compiled):
        model.zero_grad()
        y = run(x, grid)
        y.square().sum().backward()
        results.append([y.detach(), *(p.grad.clone() for p in model.parameters())])
    for eager, fast in zip(*results):
        torch.testing.assert_close(fast, eager, rtol=1e-11, atol=1e-11)


def breaks(model: torch.nn.Module, grids: list[sciops.Grid]) -> list[str]:
    """Where the graph of the compiled model breaks, met on each grid in turn; equal values are asserted."""
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    compiled = torch.compile(model, backend="eager")  # the trace alone
    for grid in grids:
        x = torch.randn(2, 1, *grid.shape, dtype=torch.float64)
        torch.testing.assert_close(compiled(x, grid), model(x, grid), rtol=1e-11, atol=1e-11)
    return list(counters["graph_break"])


@pytest.mark.parametrize(
    "options", [{}, {"weights": "diagonal", "local": True}, {"basis": "sine", "dealias": 2}, {"block": "classic"}]
)
def test_the_graph_stays_in_one_piece_on_grids_of_several_sizes(options):
    """Tables are constants of the graph, and sizes never become the symbols that no table could be made for."""
    options = {"modes": (4, 4), "coordinates": "none", **options}
    grids = [sciops.Grid(shape) for shape in ((9, 12), (12, 13))]
    model = sciops.build_model("fno", in_channels=1, out_channels=1, width=4, depth=1, **options).double()
    assert breaks(model, grids) == []


def test_tables_keep_the_compiler_out():
    grids = [sciops.Grid((9, 12)), sciops.Grid((10, 11))]
    model = sciops.build_model("fno", in_channels=1, out_channels=1, width=4, depth=1, modes=(4, 4)).double()
    reasons = [reason.split("\n")[0] for reason in breaks(model, grids)]
    assert all("torch.compiler.disable()" in reason for reason in reasons), reasons
