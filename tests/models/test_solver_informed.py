"""Models with a solver inside: what they are without their network, and that the network is trained through them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sciops.datasets import Splits, TensorFields
from sciops.grids import Grid
from sciops.models import Corrector, EffectiveCoefficient, Normalized, build_model, load_model, save_model
from sciops.pde import darcy
from sciops.random_fields import gaussian_random_field, two_phase
from sciops.symmetry import Symmetry
from sciops.training import TrainConfig, fit
from sciops.training.evaluation import evaluate

GRID = Grid((17, 17))
SMALL = {
    "corrector": dict(trunk="fno", width=8, depth=1, modes=(4, 4), basis="sine"),
    "effective_coefficient": dict(width=8, depth=1),
}


@pytest.fixture(scope="module")
def data():
    """a on 17² nodes, u solved on 65² nodes: what the coarse grid cannot know is the error to be learned."""
    fine = Grid((65, 65))
    a = two_phase(gaussian_random_field(fine, 40, tau=3.0, alpha=2.0, seed=0), low=3.0, high=12.0)
    u = darcy.solve(a, fine).u
    x, y = (torch.from_numpy(np.ascontiguousarray(v[:, None, ::4, ::4])).float() for v in (a, u))
    return TensorFields(x, y, GRID, symmetry=Symmetry.of_scalars())


def _error(model, dataset):
    return evaluate(model, dataset)["relative_l2"].mean()


@pytest.mark.parametrize("name", SMALL)
def test_without_the_network_it_is_the_solution(name, data):
    model = build_model(name, **SMALL[name])
    model.correct = False
    u = torch.from_numpy(darcy.solve(data.x[:3, 0].numpy(), GRID).u)
    assert (model(data.x[:3], GRID)[:, 0] - u).abs().max() < 1e-5 * u.max()


def test_an_effective_coefficient_starts_as_the_solve(data):
    for refine in (1, 2):
        model = build_model("effective_coefficient", refine=refine, **SMALL["effective_coefficient"])
        started = model(data.x[:2], GRID)
        model.correct = False
        assert torch.equal(started, model(data.x[:2], GRID))


def test_a_finer_solve_takes_the_geometric_mean_between_nodes(data):
    a = data.x[:2]
    fine = torch.empty(2, 33, 33, dtype=torch.float64)
    z = a[:, 0].double()
    fine[:, ::2, ::2] = z
    fine[:, 1::2, ::2] = (z[:, 1:] * z[:, :-1]).sqrt()
    fine[:, ::2, 1::2] = (z[:, :, 1:] * z[:, :, :-1]).sqrt()
    fine[:, 1::2, 1::2] = (z[:, 1:, 1:] * z[:, :-1, 1:] * z[:, 1:, :-1] * z[:, :-1, :-1]).pow(0.25)
    expected = darcy.solve(fine, tol=1e-10).u[:, ::2, ::2]
    model = build_model("corrector", refine=2, tol=1e-10, **SMALL["corrector"])
    found = model.solution(a.double(), GRID)[:, 0]
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-12)
    # the interface between two nodes is then nearer to where it was
    errors = {}
    for refine in (1, 2):
        model = build_model("corrector", refine=refine, **SMALL["corrector"])
        model.correct = False
        errors[refine] = _error(model, data)
    assert errors[2] < errors[1]


def test_a_coarser_solve_is_that_of_every_second_node_interpolated_by_sines(data):
    model = build_model("corrector", coarsen=2, tol=1e-10, **SMALL["corrector"])
    a = torch.ones(1, 1, 17, 17, dtype=torch.float64)
    found = model.solution(a, GRID)[:, 0]
    coarse = darcy.solve(a[:, 0, ::2, ::2], tol=1e-10).u
    torch.testing.assert_close(found[:, ::2, ::2], coarse, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="factor=3 does not fit"):
        build_model("corrector", coarsen=3, **SMALL["corrector"]).solution(a, GRID)


@pytest.mark.parametrize("name", SMALL)
def test_training_makes_it_better_than_the_solve(name, data):
    torch.manual_seed(0)
    train, test = data.subset(range(32)), data.subset(range(32, 40))
    model = build_model(name, grid=GRID, **SMALL[name])
    model.correct = False
    solve_alone = _error(model, test)
    model.correct = True
    if name == "corrector":
        solved = model.solved(train, progress=False)
        assert torch.equal(solved.x[:, :1], train.x) and torch.equal(solved.x[:, 1:], model.solution(train.x, GRID))
    config = TrainConfig(epochs=12, batch_size=4, learning_rate=5e-3, augment="square", progress=False, device="cpu")
    trained = fit(model, Splits(train, None, None), config).model
    assert _error(trained, test) < 0.95 * solve_alone
    # the wall stays exactly zero, and solving inside gives what solving beforehand gave
    assert (trained(test.x, GRID)[:, 0, 0] == 0).all()
    if name == "corrector":
        both = torch.cat([test.x, trained.solution(test.x, GRID)], 1)
        assert torch.equal(trained(test.x, GRID), trained(both, GRID))


@pytest.mark.parametrize("name", SMALL)
def test_fit_solves_once_and_fits_the_statistics(name, data, monkeypatch):
    """As by hand, bit for bit; statistics that are there already, such as those of a loaded model, are kept."""
    splits = Splits(data.subset(range(24)), data.subset(range(24, 32)), None)
    config = TrainConfig(epochs=2, batch_size=4, augment="square", progress=False, device="cpu")

    def trained(by_hand):
        torch.manual_seed(0)
        model, given = build_model(name, grid=GRID, **SMALL[name]), splits
        if by_hand and name == "corrector":
            given = Splits(*(model.solved(part, progress=False) for part in (splits.train, splits.validation)), None)
        return fit(model.fit_normalizers(given.train) if by_hand else model, given, config).model

    expected = trained(by_hand=True)
    calls: list[int] = []
    if name == "corrector":
        kind, solve = type(expected), type(expected).solution
        monkeypatch.setattr(kind, "solution", lambda self, a, grid: calls.append(len(a)) or solve(self, a, grid))
    found = trained(by_hand=False)
    assert sum(calls) == (32 if name == "corrector" else 0)  # every field once, in two epochs
    for key, value in expected.state_dict().items():
        assert torch.equal(value, found.state_dict()[key]), key
    before = found.model.input.mean.clone()
    fit(found, Splits(data.subset(range(32, 40)), None, None), TrainConfig(epochs=1, progress=False, device="cpu"))
    assert torch.equal(found.model.input.mean, before)


def test_statistics_of_several_grids_are_those_of_all_fields(data):
    coarse = TensorFields(data.x[:, :, ::2, ::2], data.y[:, :, ::2, ::2], Grid((9, 9)))
    model = build_model("corrector", **SMALL["corrector"])
    assert not model.normalizers_fitted
    model.fit_normalizers(data, model.solved(coarse, progress=False))
    change = [part.y - model.solution(part.x, part.grid) for part in (data, coarse)]
    values = torch.cat([part.double().flatten() for part in change])
    torch.testing.assert_close(model.model.output.mean[0], values.mean())
    torch.testing.assert_close(model.model.output.std[0], values.std(correction=0))
    assert model.normalizers_fitted and model.model.input.mean.shape == (2,)


@pytest.mark.parametrize("name", SMALL)
def test_they_are_saved_and_loaded(name, data, tmp_path):
    torch.manual_seed(1)
    model = build_model(name, refine=2, grid=GRID, **SMALL[name]).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model").eval()
    assert again.refine == 2 and type(again) is type(model)
    assert torch.equal(again(data.x[:2], GRID), model(data.x[:2], GRID))


def test_the_gradient_reaches_the_network_through_the_solve():
    """Against a difference of the loss along the gradient, in float64."""
    torch.manual_seed(2)
    grid = Grid((7, 7))
    model = build_model("effective_coefficient", tol=1e-12, refine=2, **SMALL["effective_coefficient"]).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    a = torch.rand(2, 1, 7, 7, dtype=torch.float64) + 0.5
    parameters = list(model.parameters())

    def loss():
        return model(a, grid).square().mean()

    gradients = torch.autograd.grad(loss(), parameters)
    direction = [torch.randn_like(p) for p in parameters]
    slope = sum((g * d).sum() for g, d in zip(gradients, direction))
    step, values = 1e-5, []
    for sign in (1, -1):
        with torch.no_grad():
            torch._foreach_add_(parameters, direction, alpha=sign * step)
            values.append(loss())
            torch._foreach_add_(parameters, direction, alpha=-sign * step)
    torch.testing.assert_close((values[0] - values[1]) / (2 * step), slope, rtol=1e-6, atol=1e-12)


def test_refusals(data):
    model = build_model("corrector", **SMALL["corrector"])
    with pytest.raises(ValueError, match="sample 0 is not positive"):
        model(-data.x[:1], GRID)
    with pytest.raises(ValueError, match="sample 1 is not positive"):
        build_model("effective_coefficient")(torch.cat([data.x[:1], 0 * data.x[:1]]), GRID)
    with pytest.raises(ValueError, match="nodes that reach the walls"):
        model.solution(data.x[:1], Grid((17, 17), centering="cell"))
    with pytest.raises(ValueError, match=r"\(batch, 1, nx, ny\)"):
        model(data.x[0], GRID)
    with pytest.raises(ValueError, match="refine=0"):
        build_model("corrector", refine=0, **SMALL["corrector"])
    with pytest.raises(ValueError, match="give one"):
        build_model("corrector", refine=2, coarsen=2, **SMALL["corrector"])
    with pytest.raises(ValueError, match="needs 4"):
        network = Normalized(build_model("operator", mixer="convolution", width=4, depth=1, coordinates="none"))
        EffectiveCoefficient(network, refine=2)(data.x[:1], GRID)
    with pytest.raises(ValueError, match="Normalized"):
        Corrector(build_model("fno", in_channels=2, modes=(4, 4))).fit_normalizers(data)
    with pytest.raises(ValueError, match="expected 1 and 1"):
        build_model("corrector", in_channels=2)
