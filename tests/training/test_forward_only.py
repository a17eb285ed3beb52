"""FOTON is backpropagation on orthogonal linear stacks, differs where theory says so, and keeps any optimiser whole."""

import gc
import weakref
from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize
from warm import python

import sciops
from sciops.datasets import Splits, TensorFields
from sciops.mixers import SpectralMixer
from sciops.models import OrthogonalConvolution, OrthogonalNet, UnitarySpectral, orthogonality_defect
from sciops.training import TrainConfig, fit
from sciops.training.gradients import feedback_matrix, forward_only, keep_orthogonal, project_
from sciops.training.gradients.forward_only import random_feedback
from sciops.training.gradients.stacks import projecting

EXACT = 1e-12


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def squares(prediction, batch):
    return ((prediction - batch.y) ** 2).sum() / (2 * len(prediction))


def entropy(prediction, batch):
    return F.cross_entropy(prediction, batch.y)


def batch_of(x, y):
    return SimpleNamespace(x=x, y=y, grid=None)


def gradients(model):
    return [p.grad.clone() for p in model.parameters()]


def learnt_and_true(model, loss_fn, batch, **options):
    """(the rule's gradients, autograd's) by parameter, after the rule's own projection."""
    model.zero_grad()
    loss = forward_only(model, loss_fn, batch, **options)
    learnt = gradients(model)
    model.zero_grad()
    expected = loss_fn(model(batch.x), batch)
    assert torch.allclose(loss, expected.detach(), rtol=1e-12)
    expected.backward()
    return learnt, gradients(model)


def worst(pair):
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(*pair))


def mlp(*widths, between=(), bias=True):
    parts = []
    for a, b in zip(widths, widths[1:]):
        parts += [nn.Linear(a, b, bias=bias), *(make() for make in between)]
    return nn.Sequential(*parts[: len(parts) - len(between)]).double()


def vectors(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def cosine(pair, at=slice(None)):
    a, b = (torch.cat([g.flatten() for g in side[at]]) for side in pair)
    return float(F.cosine_similarity(a, b, dim=0))


# --- the identity ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("widths", [(20, 20, 20, 20, 6), (24, 20, 16, 12, 8, 6), (12, 12, 30)])
@pytest.mark.parametrize("loss_fn", [squares, entropy])
def test_linear_layers_get_the_gradient_of_backpropagation(widths, loss_fn):
    model = mlp(*widths)
    y = vectors(7, widths[-1]) if loss_fn is squares else torch.randint(0, widths[-1], (7,))
    for amplitude in (1.0, 1e-3, 30.0):
        assert worst(learnt_and_true(model, loss_fn, batch_of(vectors(7, widths[0]), y), amplitude=amplitude)) < (
            EXACT if amplitude > 0.1 else 1e-9
        )


def spectral(modes, grid, outside):
    model = OrthogonalNet(
        2, 3, kind="spectral", width=5, depth=4, modes=modes, outside=outside, activation="identity"
    ).double()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.05 * torch.randn_like(p))  # biases too, and off the unitary matrices: the first call projects
    return model, vectors(3, 2, *grid), vectors(3, 3, *grid)


def convolutions(**how):
    layers = [OrthogonalConvolution(6, 6, **how), OrthogonalConvolution(6, 4, **how)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * 20, 5)), vectors(4, 6, 5, 4), vectors(4, 5)


def circular():
    same = {"padding": "same", "padding_mode": "circular"}
    model = nn.Sequential(
        nn.PixelUnshuffle(2), nn.Conv2d(8, 8, (5, 4), **same), nn.Conv2d(8, 6, 1), nn.Conv2d(6, 4, (5, 4), **same)
    )
    model.append(nn.Flatten()).append(nn.Linear(80, 5))
    return model, vectors(4, 2, 10, 8), vectors(4, 5)


STACKS = {
    "all modes": lambda: spectral((4, 5), (8, 8), "identity"),
    "low modes, rest unchanged": lambda: spectral((2, 3), (9, 8), "identity"),
    "low modes, rest zero": lambda: spectral((2, 3), (9, 8), "zero"),
    "Nyquist rows": lambda: spectral((3, 2), (6, 7), "identity"),
    "one axis": lambda: spectral((5,), (8,), "identity"),
    "three axes": lambda: spectral((1, 2, 2), (4, 4, 5), "identity"),
    "small kernels": convolutions,
    "kernels of the grid": circular,
}


@pytest.mark.parametrize("name", STACKS)
def test_convolutions_and_unitary_modes_get_the_gradient_of_backpropagation(name):
    model, x, y = STACKS[name]()
    assert worst(learnt_and_true(model.double(), squares, batch_of(x, y))) < EXACT


def test_sine_modes():
    model = nn.Sequential(*(UnitarySpectral(3, (4, 5), basis="sine") for _ in range(3)), nn.Linear(3, 2)).double()
    pair = learnt_and_true(model, squares, batch_of(vectors(4, 9, 8, 3), vectors(4, 9, 8, 2)))
    assert worst(pair) < EXACT
    mixer = nn.Sequential(SpectralMixer(3, (4, 5), basis="sine"), nn.Linear(3, 2)).double()
    assert worst(learnt_and_true(mixer, squares, batch_of(vectors(4, 9, 8, 3), vectors(4, 9, 8, 2)))) < EXACT


def test_the_product_of_the_layers_is_their_derivative():
    for model, x in (
        (mlp(9, 8, 7, 5), vectors(2, 9)),
        (nn.Sequential(nn.Flatten(), *mlp(12, 8, 3)), vectors(2, 3, 4)),
    ):
        jacobian = torch.func.vmap(torch.func.jacrev(lambda z, model=model: model(z[None])[0]))(x)
        matrix = feedback_matrix(model)
        for one in jacobian:
            assert torch.allclose(matrix, one.flatten(1).T, atol=1e-14)
    with pytest.raises(TypeError, match="expected nn.Linear layers"):
        feedback_matrix(circular()[0])


def test_a_lift_is_trained_by_the_injected_error():
    model = nn.Sequential(nn.Linear(3, 12), *mlp(12, 12, 9, 4)).double()
    data = batch_of(vectors(6, 3), vectors(6, 4))
    assert worst(learnt_and_true(model, squares, data, lift=True)) < EXACT
    with pytest.raises(ValueError, match=r"widens 3 numbers to 12.*lift=True"):
        forward_only(model, squares, data)


def test_weights_of_a_batch_and_several_pieces_add_up():
    model, x, y = mlp(8, 8, 4), vectors(6, 8), vectors(6, 4)
    whole = learnt_and_true(model, squares, batch_of(x, y))[1]
    model.zero_grad()
    for piece in (slice(0, 2), slice(2, 6)):
        weighed = SimpleNamespace(x=x[piece], y=y[piece], grid=None, weight=1 / 6)
        forward_only(model, lambda p, b: ((p - b.y) ** 2).sum() / 2 * b.weight, weighed)
    assert worst((gradients(model), whole)) < EXACT


def test_temperature_scales_the_logits_and_not_the_error():
    model, data = mlp(8, 8, 4), batch_of(vectors(6, 8), torch.randint(0, 4, (6,)))
    forward_only(model, entropy, data, temperature=3.0)
    learnt = gradients(model)
    error = (torch.softmax(3 * model(data.x), -1) - F.one_hot(data.y, 4)).detach() / 6
    model.zero_grad()
    (model(data.x) * error).sum().backward()
    assert worst((learnt, gradients(model))) < EXACT


# --- where it is not the gradient -----------------------------------------------------------------------------------


def test_widening_loses_the_error_and_is_refused():
    model, data = mlp(16, 24, 16, 5), batch_of(vectors(9, 16), vectors(9, 5))
    with pytest.raises(ValueError, match="widens 16 numbers to 24.*allow_widening=True"):
        forward_only(model, squares, data)
    pair = learnt_and_true(model, squares, data, allow_widening=True)
    assert 0.1 < float((pair[0][0] - pair[1][0]).norm() / pair[1][0].norm()) < 1
    assert 0.5 < cosine(pair) < 0.99


def test_without_orthogonality_or_with_a_stale_projection_it_differs():
    model, data = mlp(16, 16, 16, 5), batch_of(vectors(9, 16), vectors(9, 5))
    assert worst(learnt_and_true(model, squares, data, projection="none")) > 0.1
    kept = {"feedback_every": 5}
    assert worst(learnt_and_true(model, squares, data, **kept)) > 0.1  # the call before kept F of the weights then
    project_(model)
    fresh = deepcopy(model)
    assert worst(learnt_and_true(fresh, squares, data, **kept)) < EXACT
    with torch.no_grad():
        fresh[-1].weight.add_(0.3 * torch.randn_like(fresh[-1].weight))
    assert worst(learnt_and_true(fresh, squares, data, **kept)) > 0.01
    assert worst(learnt_and_true(fresh, squares, data)) < EXACT
    assert abs(cosine(learnt_and_true(fresh, squares, data, feedback="random"), slice(0, 1))) < 0.5


def test_a_stale_projection_of_other_layers_is_a_copy_of_them():
    model, x, y = spectral((2, 3), (8, 8), "identity")
    data = batch_of(x, y)
    assert worst(learnt_and_true(model, squares, data, feedback_every=3)) < EXACT
    with torch.no_grad():
        model.stack[-1].weight.mul_(2)
    assert worst(learnt_and_true(model, squares, data, feedback_every=3)) > 0.05
    assert worst(learnt_and_true(model, squares, data, feedback_every=3)) > 0.05
    assert worst(learnt_and_true(model, squares, data, feedback_every=3)) < EXACT  # the fourth call


def test_small_inputs_make_tanh_linear():
    cosines = []
    for size in (3.0, 1e-1, 1e-3):
        model = mlp(16, 16, 16, 16, 5, between=(nn.Tanh,))
        pair = learnt_and_true(project_and_quiet(model), squares, batch_of(size * vectors(9, 16), 1e-3 * vectors(9, 5)))
        cosines.append(cosine(pair))
    assert cosines[0] < cosines[1] < 1 - 1e-9 and 1 - cosines[2] < 1e-5


def project_and_quiet(model):
    project_(model)
    with torch.no_grad():
        for layer in model:
            if isinstance(layer, nn.Linear):
                layer.bias.zero_()
        model[-1].weight.mul_(0.1)
    return model


def by_hand(model, x, y, *, modulated, projection, amplitude):
    """Gradients of 'tanh layers, linear head' written out from the definition, for ½ squared error."""
    layers = [m for m in model if isinstance(m, nn.Linear)]

    def run(z):
        values = [z]
        for layer in layers[:-1]:
            values.append(torch.tanh(values[-1] @ layer.weight.T + layer.bias))
        return values, values[-1] @ layers[-1].weight.T + layers[-1].bias

    with torch.no_grad():
        clean, out = run(x)
        e = out - y
        moved, _ = run(x - amplitude * e @ projection.T)
        before = moved if modulated else clean
        found = []
        for l in range(len(layers) - 1):
            delta = (clean[l + 1] - moved[l + 1]) / amplitude
            found += [delta.T @ before[l] / len(x), delta.mean(0)]
        return [*found, e.T @ before[-1] / len(x), e.mean(0)]


def test_both_rules_are_their_formulas():
    model, x, y = mlp(10, 10, 8, 4, between=(nn.Tanh,)), vectors(6, 10), vectors(6, 4)
    for amplitude in (1.0, 0.3):
        learnt, _ = learnt_and_true(model, squares, batch_of(x, y), amplitude=amplitude)
        hand = by_hand(model, x, y, modulated=False, projection=feedback_matrix(model), amplitude=amplitude)
        assert worst((learnt, hand)) < EXACT
        learnt, true = learnt_and_true(
            model, squares, batch_of(x, y), method="pepita", scale=0.2, seed=3, amplitude=amplitude
        )
        random = random_feedback(10, 4, 0.2, 3, torch.float64, torch.device("cpu"))
        hand = by_hand(model, x, y, modulated=True, projection=random, amplitude=amplitude)
        assert worst((learnt, hand)) < EXACT
        assert worst((learnt, true)) > 0.1
    assert abs(float(random.std()) - 0.2) < 0.06


def test_dropout_keeps_its_mask_for_both_passes():
    model = mlp(10, 10, 10, 4, between=(lambda: nn.Dropout(0.4),))
    project_(model)
    x, y = vectors(6, 10), vectors(6, 4)
    torch.manual_seed(5)
    forward_only(model, squares, batch_of(x, y))
    learnt = gradients(model)
    torch.manual_seed(5)
    masks = [F.dropout(torch.ones(6, 10, dtype=torch.float64), 0.4) for _ in range(2)]
    first, second, head = model[0], model[2], model[4]
    with torch.no_grad():
        h1 = masks[0] * first(x)
        h2 = masks[1] * second(h1)
        e = head(h2) - y
        d1 = masks[0] * (e @ feedback_matrix(model).T @ first.weight.T)
        d2 = masks[1] * (d1 @ second.weight.T)
    for got, delta, before in ((learnt[0], d1, x), (learnt[2], d2, h1), (learnt[4], e, h2)):
        assert torch.allclose(got, delta.T @ before / 6, atol=1e-13)


# --- projection and optimisers --------------------------------------------------------------------------------------


def steps(model, optimizer, data, count, **options):
    for _ in range(count):
        optimizer.zero_grad()
        loss = forward_only(model, squares, data, **options)
        optimizer.step()
    return float(loss)


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad])
def test_any_optimiser_keeps_its_state_and_the_layers_stay_orthogonal(make):
    model, data = mlp(12, 12, 10, 4, between=(nn.Tanh,)), batch_of(vectors(20, 12), vectors(20, 4))
    optimizer = make(model.parameters(), lr=0.02, **({"momentum": 0.9} if make is torch.optim.SGD else {}))
    keep_orthogonal(model, optimizer)
    before = list(model.parameters())
    first = steps(model, optimizer, data, 1)
    last = steps(model, optimizer, data, 40)
    assert last < 0.9 * first
    assert all(a is b for a, b in zip(before, model.parameters()))
    assert set(optimizer.state) == set(before)
    hidden = [model[0], model[2]]
    assert max(orthogonality_defect(layer) for layer in hidden) < 1e-9
    assert orthogonality_defect(model[4]) > 1e-3  # the head is free


def test_projection_follows_its_options_and_leaves_other_rules_alone():
    model, data = mlp(12, 12, 4), batch_of(vectors(20, 12), vectors(20, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    keep_orthogonal(model, optimizer)
    steps(model, optimizer, data, 1, project_every=2)
    assert orthogonality_defect(model[0]) > 1e-6
    steps(model, optimizer, data, 1, project_every=2, projection="polar")
    assert orthogonality_defect(model[0]) < 1e-13
    optimizer.zero_grad()
    squares(model(data.x), data).backward()
    optimizer.step()
    assert orthogonality_defect(model[0]) > 1e-6
    other = torch.optim.SGD(mlp(3, 3, 3).parameters(), lr=0.1)
    forward_only(model, squares, data)
    other.step()
    assert orthogonality_defect(model[0]) > 1e-6  # a step of another model's optimiser


def test_in_a_loop_of_ones_own_the_next_call_projects():
    """The same gradients and weights as with `keep_orthogonal`, several calls before a step included."""
    data, runs = batch_of(vectors(20, 12), vectors(20, 4)), []
    for known in (True, False):
        torch.manual_seed(0)
        model = mlp(12, 12, 10, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        if known:
            keep_orthogonal(model, optimizer)
        for _ in range(3):
            optimizer.zero_grad()
            forward_only(model, squares, data)
            forward_only(model, squares, data)
            optimizer.step()
        assert (orthogonality_defect(model[0]) < 1e-9) == known
        forward_only(model, squares, data)
        assert orthogonality_defect(model[0]) < 1e-9
        runs.append([p.detach().clone() for p in model.parameters()])
    assert all(torch.equal(p, q) for p, q in zip(*runs))


def test_nothing_is_left_behind_when_model_and_optimizer_go():
    model = mlp(6, 6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    keep_orthogonal(model, optimizer)
    forward_only(model, squares, batch_of(vectors(3, 6), vectors(3, 2)))
    keeper, gone = weakref.ref(projecting._KEEPERS[model]), weakref.ref(model)
    handle = keep_orthogonal(model, optimizer)
    handle.remove()
    assert len(optimizer._optimizer_step_post_hooks) == 1  # the first
    del model, optimizer
    gc.collect()
    assert gone() is None and keeper() is None


def test_layers_that_keep_themselves_orthogonal_are_measured():
    data = batch_of(vectors(5, 8, 3, 4), vectors(5, 2))

    def stack(layer):
        return nn.Sequential(layer, nn.Flatten(), nn.Linear(8 * 12, 2)).double()

    class Cayley(nn.Module):
        def forward(self, w):
            skew, eye = w.flatten(1) - w.flatten(1).T, torch.eye(len(w), dtype=w.dtype)
            return torch.linalg.solve(eye + skew, eye - skew)[:, :, None, None]

    class Twice(nn.Module):
        def forward(self, w):
            return 2 * w

    good = nn.Conv2d(8, 8, 1)
    parametrize.register_parametrization(good, "weight", Cayley())
    assert worst(learnt_and_true(stack(good), squares, data)) < EXACT

    bad = nn.Conv2d(8, 8, 1)
    parametrize.register_parametrization(bad, "weight", Twice())
    twice = stack(bad)
    for _ in range(2):  # not only the first time
        with pytest.raises(ValueError, match="parametrisation of step 0, .* leaves"):
            forward_only(twice, squares, data)


def test_fit_trains_by_it_and_goes_on_bit_for_bit(tmp_path):
    grid = sciops.Grid((8, 8), centering="periodic")
    x = torch.randn(48, 1, 8, 8)
    y = torch.stack([x[:, 0].roll(1, 1), 0.5 * x[:, 0]], 1) + 3
    data = Splits(TensorFields(x[:32], y[:32], grid), TensorFields(x[32:], y[32:], grid), None)
    how = {"gradients": "forward_only", "batch_size": 8, "learning_rate": 0.02, "clip": None, "progress": False}

    def net():
        torch.manual_seed(1)
        return sciops.build_model(
            "orthogonal", in_channels=1, out_channels=2, kind="spectral", width=6, depth=3, modes=[4, 5]
        )

    run = fit(net(), data, TrainConfig(epochs=6, **how))
    errors = [record["validation"] for record in run.history]
    assert errors[-1] < 0.5 * errors[0]
    layers = [m for m in run.model.modules() if isinstance(m, UnitarySpectral)]
    assert max(orthogonality_defect(m, (8, 8)) for m in layers) < 1e-4
    kept = {"folder": tmp_path, **how}
    fit(net(), data, TrainConfig(epochs=6, stop_after=3, **kept))
    again = fit(net(), data, TrainConfig(epochs=6, resume=True, **kept))
    assert all(torch.equal(a, b) for a, b in zip(again.model.parameters(), run.model.parameters()))
    folder = sciops.save_model(run.model, tmp_path / "model")
    with torch.no_grad():
        assert torch.equal(sciops.load_model(folder)(x, grid), run.model(x, grid))


_TWO = """
import sys, torch
from types import SimpleNamespace
from sciops.models import OrthogonalNet
from sciops.training.gradients import forward_only

torch.manual_seed(0)
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
net = OrthogonalNet(1, 3, shape=(8,), width=8, depth=3).double()
forward_only(net, lambda p, b: p.sum(), SimpleNamespace(x=torch.ones(2, 1, 8).double(), y=None, grid=None))
net.zero_grad()
x, y = torch.randn(6, 1, 8).double(), torch.randn(6, 3).double()
part = slice(0, 2) if rank == 0 else slice(2, 6)
batch = SimpleNamespace(x=x[part], y=y[part], grid=None, weight=2 / 6)
front = torch.nn.parallel.DistributedDataParallel(net)
for _ in range(2):
    forward_only(front, lambda p, b: ((p - b.y) ** 2).sum() / 2 * b.weight, batch)
shared = [p.grad / 2 for p in net.parameters()]
net.zero_grad()
del front  # before the group, whose threads it would wait for with Python's lock
torch.distributed.destroy_process_group()
forward_only(net, lambda p, b: ((p - b.y) ** 2).sum() / 12, SimpleNamespace(x=x, y=y, grid=None))
worst = max(float((a - p.grad).abs().max() / p.grad.abs().max()) for a, p in zip(shared, net.parameters()))
sys.exit(0 if worst < 1e-12 else f"gradients differ by {worst}")
"""


@pytest.mark.slow
def test_several_processes_average():
    done = python(["-c", _TWO], timeout=120, processes=2)
    assert done.returncode == 0, done.stderr[-2000:]


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (nn.LayerNorm(8), "LayerNorm: normalisation couples"),
        (nn.AvgPool1d(2), "AvgPool1d: pooling loses"),
        (nn.MultiheadAttention(8, 2), "MultiheadAttention: attention is not linear"),
        (nn.Softmax(-1), "Softmax is neither"),
    ],
)
def test_what_is_no_stack_is_refused_with_the_reason(part, reason):
    with pytest.raises(TypeError, match=reason):
        forward_only(nn.Sequential(nn.Linear(8, 8), part, nn.Linear(8, 2)), squares, batch_of(None, None))


def test_other_refusals():
    spine = sciops.build_model("fno", in_channels=1, out_channels=1, width=4, depth=1, modes=(2, 2))
    with pytest.raises(TypeError, match=r"ResidualBlock: a skip makes I \+ W.*build_model\('orthogonal'"):
        forward_only(spine, squares, batch_of(None, None))
    data = batch_of(vectors(3, 6), vectors(3, 2))
    model = mlp(6, 6, 2)
    with pytest.raises(TypeError, match="behind the last linear layer"):
        forward_only(nn.Sequential(*model, nn.Tanh()), squares, data)
    with pytest.raises(TypeError, match="at least two"):
        forward_only(nn.Sequential(nn.Linear(6, 2)), squares, data)
    with (
        pytest.raises(ValueError, match="differences of two passes.*precision='float32'"),
        torch.autocast("cpu", torch.bfloat16),
    ):
        forward_only(model, squares, data)
    for option in (
        {"method": "x"},
        {"amplitude": 0.0},
        {"feedback_every": 0},
        {"projection": "cayley"},
        {"temperature": -1},
    ):
        with pytest.raises(ValueError, match=f"forward_only: {next(iter(option))}="):
            forward_only(model, squares, data, **option)
    with pytest.raises(ValueError, match="at most 1e"):
        random_feedback(10**5, 10**4, 1.0, 0, torch.float32, torch.device("cpu"))
    strided = nn.Sequential(nn.Conv2d(2, 2, 3, stride=2, padding=1), nn.Flatten(), nn.Linear(8, 2)).double()
    with pytest.raises(ValueError, match="needs stride 1"):
        forward_only(strided, squares, batch_of(vectors(2, 2, 4, 4), vectors(2, 2)))


@pytest.mark.gpu
def test_on_a_gpu():
    model, x, y = spectral((2, 3), (9, 8), "identity")
    assert worst(learnt_and_true(model.cuda(), squares, batch_of(x.cuda(), y.cuda()))) < 1e-11
