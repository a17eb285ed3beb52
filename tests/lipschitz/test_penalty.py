"""The penalty is the logarithm of the bound, with its gradient; what it is for: smaller bounds after training."""

import warnings

import pytest
import torch

from sciops import Grid, build_model
from sciops.lipschitz import lipschitz_bound, log_lipschitz_penalty
from sciops.models.spine.operator import Operator


def small(**options):
    options = dict(width=2, depth=1, norm="none", mlp="plain", ndim=1, mixer_options={"modes": (2,)}) | options
    return Operator(1, 1, **options)


MODELS = [
    ({"block": "classic", "depth": 2}, "periodic", None),
    ({"block": "classic"}, "node", None),
    ({"local": True, "layer_scale": 0.5, "dealias": 2}, "cell", None),
    ({"mixer_activation": False}, "periodic", None),
    ({"mlp": "gated"}, "periodic", 1.5),
    ({"mixer": "attention", "mixer_options": {"norm": False, "heads": 2}}, "cell", 0.9),
    ({"mixer": "multipole", "mixer_options": {"norm": False, "heads": 1, "axes": 1}}, "cell", 0.9),
    ({"mixer": "slices", "mixer_options": {"heads": 1, "slices": 2}}, "cell", 0.6),
    ({"mixer": "convolution", "mixer_options": {"axes": 1}}, "periodic", None),
    ({"mixer_options": {"modes": (2,), "basis": "sine"}}, "node", None),
]


@pytest.mark.parametrize(("options", "centering", "radius"), MODELS, ids=lambda v: str(v)[:30])
def test_value_and_gradient(options, centering, radius):
    torch.manual_seed(0)
    model, grid = small(**options).double(), Grid((6,), centering=centering)
    with torch.no_grad():
        for p in model.parameters():  # orthogonal weights have equal singular values, whose largest has a kink
            p.add_(0.1 * torch.randn_like(p))
    names, values = zip(*[(n, p.detach().clone().requires_grad_()) for n, p in model.named_parameters()])

    def penalty(*values):
        return torch.func.functional_call(
            _Penalty(model, grid, radius), {f"model.{n}": v for n, v in zip(names, values)}, ()
        )

    expected = lipschitz_bound(model, grid, radius=radius).value
    assert float(penalty(*values).exp().detach()) == pytest.approx(expected, rel=1e-9)
    assert torch.autograd.gradcheck(penalty, values, fast_mode=True)


class _Penalty(torch.nn.Module):
    def __init__(self, model, grid, radius):
        super().__init__()
        self.model, self.grid, self.radius = model, grid, radius

    def forward(self):
        return log_lipschitz_penalty(self.model, self.grid, radius=self.radius)


def test_neuralop_models_too():
    """Complex weights in float32: against a central difference along one direction."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = build_model("neuralop:FNO", width=3, depth=2, modes=(3, 3))
    grid = Grid((8, 8), centering="periodic")
    log_lipschitz_penalty(model, grid).backward()
    weight = model.model.fno_blocks.convs[0].weight.tensor
    step = torch.randn(weight.shape, dtype=weight.dtype, generator=torch.Generator().manual_seed(0))
    values = []
    with torch.no_grad():
        for sign in (1, -2):
            weight.add_(sign * 1e-3 * step)
            values.append(float(torch.log(torch.tensor(lipschitz_bound(model, grid).value, dtype=torch.float64))))
    found = float((weight.grad.conj() * step).real.sum())
    assert (values[0] - values[1]) / 2e-3 == pytest.approx(found, rel=2e-2, abs=1e-5)


def test_training_with_it_makes_the_bound_smaller():
    grid = Grid((16,), centering="periodic")
    x = torch.randn(32, 1, 16, generator=torch.Generator().manual_seed(0))
    y = 0.5 * x + 0.5 * x.roll(1, -1)
    results = {}
    for weight in (0.0, 1e-2):
        torch.manual_seed(0)
        model = small(width=4, depth=2, block="classic", coordinates="none", mixer_options={"modes": (8,)})
        optimizer = torch.optim.Adam(model.parameters(), 2e-2)
        for _ in range(40):
            loss = (model(x, grid) - y).square().mean()
            if weight:
                loss = loss + weight * log_lipschitz_penalty(model, grid)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        error = float((model(x, grid) - y).norm().detach() / y.norm())
        results[weight] = lipschitz_bound(model, grid).value, error
    assert results[1e-2][0] < 0.6 * results[0.0][0]
    assert results[1e-2][1] < 0.5  # and it still learns


def test_the_dtype_is_that_of_the_parameters():
    for dtype in (torch.float32, torch.float64):
        assert log_lipschitz_penalty(small().to(dtype), Grid((6,))).dtype == dtype


def test_without_a_bound_there_is_nothing_to_penalise():
    with pytest.raises(ValueError, match="block 0 has no finite bound.*RMSNorm"):
        log_lipschitz_penalty(small(norm="rms"), Grid((6,)))
