"""Highway-BP through stacks of layers: where it is exact and where not, what it sums, and what `fit` makes of it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sciops.datasets import Splits, TensorFields
from sciops.datasets.text.token_data import TokenWindows
from sciops.grids import Grid
from sciops.models import build_model
from sciops.models.sequences.stack import SequenceStack
from sciops.models.sequences.through_time.sweeps import _hutchinson, sweeps
from sciops.models.spine.blocks import ResidualBlock
from sciops.training import Batch, TrainConfig, fit, load_checkpoint
from sciops.training.gradients import Layer, highway, highway_rnn, highway_stack, norm_after_sum, relu_after_sum
from sciops.training.gradients.stacks.layers import layers_of
from sciops.training.gradients.stacks.layerwise import LayerByLayer

DEPTH, ROWS, WIDTH = 5, 3, 6


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def branch(gain: float = 1.0) -> nn.Module:
    inner, outer = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
    with torch.no_grad():
        outer.weight.mul_(gain)
    return nn.Sequential(inner, nn.Tanh(), outer)


class Mixed(nn.Module):
    """r(h, z) = GELU(Wh + z), with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(draw(WIDTH, WIDTH, seed=7) / 2)

    def forward(self, h: Tensor, z: Tensor) -> Tensor:
        return F.gelu(h @ self.weight + z)


KINDS = {
    "sum": lambda: branch(),
    "relu": lambda: relu_after_sum(branch()),
    "post-norm": lambda: norm_after_sum(branch(), nn.LayerNorm(WIDTH)),
    "matrix": lambda: (branch(), Mixed()),
}


def stack(kind: str, depth: int = DEPTH) -> list:
    """Layers of one kind, or of all of them by turns."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        kinds = list(KINDS) if kind == "all" else [kind]
        layers = [KINDS[kinds[i % len(kinds)]]() for i in range(depth)]
    for layer in layers_of(layers):
        layer.module.double()
        if isinstance(layer.join, nn.Module):
            layer.join.double()
    return layers


def relative(found, true) -> float:
    found, true = (torch.cat([g.flatten() for g in gradients]) for gradients in (found, true))
    return ((found - true).norm() / true.norm()).item()


def plain(layers, x: Tensor) -> list[Tensor]:
    states = []
    for layer in layers_of(layers):
        states.append(x := layer(x))
    return states


def loss_of(states, everywhere: bool) -> Tensor:
    weights = draw(len(states), ROWS, WIDTH, seed=3)
    return (states[-1] * weights[0]).sum() + everywhere * sum((s * w).sum() for s, w in zip(states, weights))


@pytest.mark.parametrize("kind", [*KINDS, "all"])
@pytest.mark.parametrize("gamma", [0.0, 0.2, 1.0, "hutchinson"])
@pytest.mark.parametrize("everywhere", [False, True])
def test_exact_from_depth_minus_one_on_and_not_before(kind, gamma, everywhere):
    """And the gradient with respect to the stack's input from `depth` on; with losses on all states or the last."""
    layers, x = stack(kind), draw(ROWS, WIDTH).requires_grad_()
    parameters = [p for layer in layers_of(layers) for p in layer.parameters()]
    true = torch.autograd.grad(loss_of(plain(layers, x), everywhere), [x, *parameters])
    errors = {}
    for k in (DEPTH, DEPTH - 1, DEPTH - 2):
        states = highway_stack(layers, x, iterations=k, gamma=gamma, states=True)
        found = torch.autograd.grad(loss_of(states, everywhere), [x, *parameters])
        errors[k] = relative(found[1:], true[1:]), relative(found[:1], true[:1])
    torch.testing.assert_close(states, tuple(plain(layers, x)), rtol=1e-13, atol=1e-13)
    assert errors[DEPTH][0] < 1e-13 and errors[DEPTH - 1][0] < 1e-13 and errors[DEPTH - 2][0] > 1e-6
    assert errors[DEPTH][1] < 1e-13 and errors[DEPTH - 1][1] > 1e-6


@pytest.mark.parametrize("kind", ["sum", "relu", "matrix"])
def test_the_gradient_of_state_i_is_exact_if_and_only_if_k_reaches_depth_minus_i(kind):
    layers, x = stack(kind), draw(ROWS, WIDTH).requires_grad_()
    states = [x, *plain(layers, x)]
    true = torch.autograd.grad(loss_of(states[1:], False), states)
    for k in range(DEPTH + 1):
        engine = LayerByLayer(layers_of(layers))
        engine.forward(x, [p for layer in engine.layers for p in layer.parameters()])
        outside = [None] * (DEPTH - 1) + [true[-1]]
        w = sweeps(engine, outside, k, 0.0, to_first=True)
        for i in range(DEPTH + 1):
            assert (relative([w[i]], [true[i]]) < 1e-12) == (k >= DEPTH - i), (k, i)


@pytest.mark.parametrize("gamma", [0.0, 0.3])
def test_sums_of_paths_are_binomial(gamma):
    """h ← (1 + a)h: w_0 = Σ_{m ≤ k} C(L, m) (a + γ)^m (1 − γ)^{L − m}, and the tail bounds the error."""
    a, depth = 0.37, 6
    layers = [nn.Linear(1, 1, bias=False).double() for _ in range(depth)]
    for layer in layers:
        nn.init.constant_(layer.weight, a)
    x = torch.ones(1, 1, dtype=torch.float64, requires_grad=True)
    for k in range(depth + 2):
        h = highway_stack(layers, x, iterations=k, gamma=gamma)
        (found,) = torch.autograd.grad(h.sum(), x)
        terms = [math.comb(depth, m) * (a + gamma) ** m * (1 - gamma) ** (depth - m) for m in range(depth + 1)]
        assert found.item() == pytest.approx(sum(terms[: k + 1]), rel=1e-13)


def test_the_error_stays_below_the_binomial_tail():
    layers, x = stack("sum"), draw(1, WIDTH).requires_grad_()
    states = [x, *plain(layers, x)]
    norms = []
    for layer, h in zip(layers, states):
        norms.append(torch.linalg.matrix_norm(torch.autograd.functional.jacobian(layer, h[0].detach()), 2).item())
    true = torch.autograd.grad(states[-1].sum(), states)
    rho, size = max(norms), math.sqrt(WIDTH)
    engine = LayerByLayer(layers_of(layers))
    engine.forward(x, [p for layer in layers for p in layer.parameters()])
    for k in range(DEPTH):
        w = sweeps(engine, [None] * (DEPTH - 1) + [true[-1]], k, 0.0, to_first=True)
        for i in range(DEPTH + 1):
            tail = sum(math.comb(DEPTH - i, m) * rho**m for m in range(k + 1, DEPTH - i + 1))
            assert (w[i] - true[i]).norm() <= size * tail + 1e-12


def test_without_iterations_every_layer_gets_the_same_cotangent():
    layers, x, seen = stack("sum"), draw(ROWS, WIDTH).requires_grad_(), []

    def watch(module, inputs, output):
        output.register_hook(seen.append)

    for layer in layers:
        layer.register_forward_hook(watch)
    weight = draw(ROWS, WIDTH, seed=3)
    (highway_stack(layers, x, iterations=0) * weight).sum().backward()
    assert len(seen) == DEPTH and all(torch.equal(g, weight) for g in [*seen, x.grad])


def test_gamma_one_is_the_fixed_point_iteration():
    """w ← e + (∂f)ᵀ w, whose k-th iterate knows the k next layers."""
    layers, x = stack("sum"), draw(ROWS, WIDTH).requires_grad_()
    states = [x, *plain(layers, x)]
    e = draw(ROWS, WIDTH, seed=4)
    for k in range(DEPTH + 1):
        w = [torch.zeros_like(e)] * DEPTH + [e]
        for _ in range(k):
            w = [
                torch.autograd.grad(states[i + 1], states[i], w[i + 1], retain_graph=True)[0] for i in range(DEPTH)
            ] + [e]
        (found,) = torch.autograd.grad((highway_stack(layers, x, iterations=k, gamma=1.0) * e).sum(), x)
        torch.testing.assert_close(found, w[0], rtol=1e-12, atol=1e-13)


def test_the_estimate_of_gamma_is_minus_the_mean_of_the_diagonal():
    layers = [nn.Linear(WIDTH, WIDTH, bias=False).double() for _ in range(3)]
    with torch.no_grad():
        for layer, shift in zip(layers, (-0.7, 0.4, -1.8)):
            layer.weight.copy_(draw(WIDTH, WIDTH, seed=2) / 10 + shift * torch.eye(WIDTH))
    engine = LayerByLayer(layers_of(layers))
    engine.forward(draw(20_000, WIDTH), [layer.weight for layer in layers])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        found = _hutchinson(engine, torch.zeros(4, 20_000, WIDTH, dtype=torch.float64))
    expected = [-layer.weight.trace().item() / WIDTH for layer in layers]
    assert expected[1] < 0 and expected[2] > 1
    torch.testing.assert_close(found.flatten()[1:].tolist(), [expected[0], 0.0, 1.0], rtol=0, atol=5e-3)


@pytest.mark.parametrize("gamma", [0.0, 0.2])
@pytest.mark.parametrize("k", [0, 1, 3])
def test_the_batched_engine_is_the_loop(gamma, k):
    """Also where two kinds of layers take turns, one is frozen and one is used twice."""

    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
            self.register_buffer("scale", torch.rand(WIDTH))

        def forward(self, h: Tensor) -> Tensor:
            return self.linear(self.norm(h)) * self.scale

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        layers = [part for _ in range(3) for part in (branch(0.7).double(), Norm().double())]
    layers = [*layers, layers[0]]
    layers[2].requires_grad_(False)
    x = draw(ROWS, WIDTH).requires_grad_()
    parameters = list(dict.fromkeys(p for layer in layers for p in layer.parameters() if p.requires_grad))
    found = []
    for engine in ("loop", "batched"):
        states = highway_stack(layers, x, iterations=k, gamma=gamma, engine=engine, states=True)
        found.append(torch.autograd.grad(loss_of(states, True), [x, *parameters]))
    for a, b in zip(*found):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


def test_layers_that_only_look_alike_are_not_batched_together():
    class Scaled(nn.Module):
        def __init__(self, factor: float) -> None:
            super().__init__()
            self.linear, self.factor = nn.Linear(WIDTH, WIDTH), factor

        def forward(self, h: Tensor) -> Tensor:
            return self.factor * self.linear(h)

    layers = [Scaled(f).double() for f in (0.5, -2.0, 0.5)]
    x = draw(ROWS, WIDTH).requires_grad_()
    leaves = [x, *(p for layer in layers for p in layer.parameters())]
    true = torch.autograd.grad(plain(layers, x)[-1].square().sum(), leaves)
    found = torch.autograd.grad(highway_stack(layers, x, iterations=3, engine="batched").square().sum(), leaves)
    assert relative(found, true) < 1e-13


FIELDS = Batch(draw(2, 1, 8, 8), draw(2, 1, 8, 8, seed=1), Grid((8, 8)), 1.0)
IMAGES = Batch(draw(2, 1, 8, 8), draw(2, 3, seed=1), Grid((8, 8)), 1.0)
# depth in layers of a model's longest stack; a block of the residual kind has two
MODELS = {
    "fno": (dict(modes=(3, 3)), 6),
    "mano": (dict(), 6),
    "mano rms": (dict(norm="rms", layer_scale=0.3, mlp="gated"), 6),
    "fno classic": (dict(modes=(3, 3), block="classic", norm="instance", local=True), 3),
    "fno dealiased": (dict(modes=(2, 2), dealias=2, local=True), 6),
}


def gradients_of(model: nn.Module, fill) -> list[Tensor]:
    model.zero_grad(set_to_none=True)
    fill()
    return [p.grad for p in model.parameters()]


def squares(prediction: Tensor, batch: Batch) -> Tensor:
    return (prediction - batch.y).square().sum()


@pytest.mark.parametrize("name", MODELS)
def test_models_of_the_spine(name):
    options, layers = MODELS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build_model(name.split()[0], in_channels=1, out_channels=1, width=8, depth=3, **options).double()
    true = gradients_of(model, lambda: squares(model(FIELDS.x, FIELDS.grid), FIELDS).backward())
    errors = []
    for k in (layers, layers - 1, layers - 2):
        found = gradients_of(model, lambda k=k: highway(model, squares, FIELDS, iterations=k))
        blocks = [[g for (n, _), g in zip(model.named_parameters(), gs) if "blocks" in n] for gs in (found, true)]
        head = [[g for (n, _), g in zip(model.named_parameters(), gs) if "project" in n] for gs in (found, true)]
        errors.append((relative(*blocks), relative(found, true)))
        assert relative(*head) < 1e-13
    assert errors[0][1] < 1e-12 and errors[1][0] < 1e-12 and errors[2][0] > 1e-6
    assert errors[1][1] > 1e-6  # the lift, before the stack, is exact one sweep later
    assert "run_blocks" not in vars(model)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_classifiers_stage_by_stage(order):
    options = dict(
        patch=2, widths=(8, 16), depths=(2, 1), mixer="window", heads=2, window=2, order=order, drop_path=0.3
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build_model("classifier", in_channels=1, out_channels=3, **options).double().train()

        def seeded(fill):
            def run():
                torch.manual_seed(3)  # the same samples skip a branch
                fill()

            return run

        def backprop():
            squares(model(IMAGES.x), IMAGES).backward()

        true = gradients_of(model, seeded(backprop))
        wrapped = lambda x, grid: model(x)  # noqa: E731
        wrapped.modules, wrapped.parameters = model.modules, model.parameters
        for k, exact in ((4, True), (2, False)):
            found = gradients_of(model, seeded(lambda k=k: highway(wrapped, squares, IMAGES, iterations=k)))
            assert (relative(found, true) < 1e-12) == exact


SEQUENCES = {
    "self_attention": {},
    "polynomial linear_attention": {"local": 3},
    "resolvent": {},
    "recurrence": {"norm": "layer"},
}


@pytest.mark.parametrize("mixers", SEQUENCES)
def test_language_models(mixers):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build_model(
            "language", symbols=7, width=8, depth=2, mixer=tuple(mixers.split()), **SEQUENCES[mixers]
        ).double()
    tokens = torch.randint(0, 7, (3, 9), generator=torch.Generator().manual_seed(1))
    batch = Batch(x=tokens, y=tokens.roll(-1, 1), grid=None, weight=1.0)
    layers = sum(len(block.layers()) for block in model.stack.blocks)
    loss = lambda prediction, batch: F.cross_entropy(prediction.mT, batch.y)  # noqa: E731
    true = gradients_of(model, lambda: loss(model(tokens), batch).backward())
    errors = [
        relative(gradients_of(model, lambda k=k: highway(model, loss, batch, iterations=k)), true)
        for k in (layers, layers - 1)
    ]
    assert errors[0] < 1e-13 and errors[1] > 1e-11  # the embedding, before the stack, is exact in the last sweep


def test_fit_trains_a_language_model_as_backprop_does():
    text = torch.randint(0, 7, (400,), generator=torch.Generator().manual_seed(2)).numpy()
    splits = Splits(TokenWindows(text, 8), TokenWindows(text[:50], 8))
    losses = []
    for rule, options in (("backprop", {}), ("highway", {"iterations": 5})):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = build_model("language", symbols=7, width=8, depth=2, mixer="polynomial").double()
            config = TrainConfig(
                objective="token_cross_entropy", gradients=rule, gradient_options=options, epochs=2, progress=False
            )
            losses.append([row["validation"] for row in fit(model, splits, config).history])
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)  # AdamW divides rounding by small gradients


def test_padded_sequences_keep_their_mask():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        stack = SequenceStack(8, 2, mixer="polynomial", local=3, norm="layer").double()
    x, mask = draw(2, 6, 8), torch.arange(6) < torch.tensor([[6], [4]])
    batch = Batch(x=x, y=x, grid=mask, weight=1.0)
    loss = lambda prediction, batch: prediction[batch.grid].square().sum()  # noqa: E731
    true = gradients_of(stack, lambda: loss(stack(x, mask), batch).backward())
    for engine in ("loop", "batched"):
        assert (
            relative(gradients_of(stack, lambda e=engine: highway(stack, loss, batch, iterations=6, engine=e)), true)
            < 1e-12
        )


def test_a_batched_spine_and_one_that_cannot_be():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        options = dict(in_channels=1, out_channels=1, width=8, depth=3, norm="layer")
        model = build_model("fno", modes=(3, 3), basis="sine", **options).double()
        loop, batched = (
            gradients_of(model, lambda e=e: highway(model, squares, FIELDS, iterations=1, engine=e))
            for e in ("loop", "batched")
        )
        assert relative(batched, loop) < 1e-13
        for block in model.blocks:
            block.mixer.register_forward_hook(lambda module, inputs, out: out * float(out.sum() > 0))
        with pytest.raises(ValueError, match="vmap cannot run ResidualBlock, pass engine='loop'"):
            highway(model, squares, FIELDS, engine="batched")
        classic = build_model("fno", modes=(3, 3), block="classic", **options).double()
        with pytest.raises(ValueError, match="these join otherwise"):
            highway(classic, squares, FIELDS, engine="batched")


def data(n: int = 12) -> Splits:
    x = torch.rand(n, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    return Splits(TensorFields(x, 3 + 2 * x + x.roll(1, -1), Grid((8, 8))), TensorFields(x[:4], x[:4], Grid((8, 8))))


def network(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_model("fno", in_channels=1, out_channels=1, width=6, depth=2, modes=(3, 3), norm="layer")


QUIET = TrainConfig(epochs=3, batch_size=4, accumulate=2, precision="float64", progress=False)


def test_training_with_enough_iterations_is_backpropagation():
    base, exact, short = (
        fit(network(), data(), replace(QUIET, gradients=rule, gradient_options=options))
        for rule, options in (("backprop", {}), ("highway", {"iterations": 4}), ("highway", {"iterations": 1}))
    )
    for a, b in zip(*(run.model.state_dict().values() for run in (base, exact))):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)
    assert base.history[-1]["loss"] == pytest.approx(exact.history[-1]["loss"], rel=1e-9)
    assert abs(base.history[-1]["loss"] / short.history[-1]["loss"] - 1) > 1e-6


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_resumed_run_with_a_schedule_and_random_gammas_is_bit_equal(tmp_path, precision):
    options = {"iterations": {0: 0, 0.5: 2}, "gamma": "hutchinson"}
    config = replace(QUIET, epochs=4, precision=precision, gradients="highway", gradient_options=options)
    fit(network(), data(), replace(config, folder=tmp_path / "whole"))
    fit(network(), data(), replace(config, folder=tmp_path / "halves", stop_after=1))
    fit(network(9), data(), replace(config, folder=tmp_path / "halves", resume=True))
    (whole, _), (halves, _) = (load_checkpoint(tmp_path / name / "last.safetensors") for name in ("whole", "halves"))
    assert whole.keys() == halves.keys() and all(torch.equal(whole[key], halves[key]) for key in whole)
    changed = replace(config, gradient_options={"iterations": 1}, folder=tmp_path / "halves", resume=True)
    with pytest.raises(ValueError, match="gradient_options"):
        fit(network(), data(), changed)


def test_a_schedule_changes_the_rule_on_its_way():
    base, first, switched = (
        fit(network(), data(), replace(QUIET, epochs=2, gradients="highway", gradient_options={"iterations": k}))
        for k in (4, 0, {0: 4, 0.5: 0})
    )
    assert switched.history[0] | {"seconds": 0} == base.history[0] | {"seconds": 0} != first.history[0] | {"seconds": 0}
    assert switched.history[1]["loss"] != base.history[1]["loss"]


def test_what_cannot_be_is_refused_with_the_reason():
    layers, x = stack("sum"), draw(ROWS, WIDTH).requires_grad_()
    for options, match in (
        ({"iterations": -1}, "iterations=-1"),
        ({"iterations": 0.5}, "iterations=0.5"),
        ({"gamma": 1.5}, "gamma=1.5"),
        ({"gamma": "trace"}, "gamma='trace'"),
        ({"engine": "scan"}, "engine='scan'"),
    ):
        with pytest.raises(ValueError, match=match):
            highway_stack(layers, x, **options)
    with pytest.raises(ValueError, match="the states of a stack have one shape"):
        highway_stack([(nn.Linear(WIDTH, 2).double(), lambda h, z: z)], x)
    with pytest.raises(ValueError, match="function is not a layer"):
        highway_stack([lambda h: h], x)
    outer = draw(WIDTH, seed=3).requires_grad_()
    with pytest.raises(ValueError, match="its gradient would be lost"):
        highway_stack([Layer(layers[0], lambda m, h: m(h) * outer.exp())], x)
    with pytest.raises(ValueError, match="shows no residual stack"):
        highway(nn.Conv2d(1, 1, 1).double(), squares, FIELDS)
    model = network().double()
    model.compile(backend="eager")
    with pytest.raises(ValueError, match="compile=False"):
        highway(model, squares, FIELDS)
    with pytest.raises(ValueError, match="expected an nn.LayerNorm"):
        norm_after_sum(layers[0], nn.BatchNorm1d(WIDTH))
    dropping = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.5)).double() for _ in range(2)]
    with pytest.raises(ValueError, match="vmap cannot run Sequential"):
        highway_stack(dropping, x, engine="batched")
    h = highway_stack(layers, x)
    h.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="run the forward pass again"):
        h.sum().backward()
    for options, match in (
        ({"iteration": 1}, "has no option 'iteration'; it takes iterations, gamma, engine"),
        ({"iterations": {0.5: 1}}, "a schedule has values by share"),
        ({"iterations": {}}, "a schedule has values by share"),
    ):
        with pytest.raises(ValueError, match=match):
            TrainConfig(gradients="highway", gradient_options=options)
    with pytest.raises(ValueError, match="it takes none"):
        TrainConfig(gradient_options={"iterations": 1})


def test_without_gradients_the_stack_just_runs():
    layers, x = stack("all"), draw(ROWS, WIDTH)
    with torch.no_grad():
        assert not highway_stack(layers, x).requires_grad
        torch.testing.assert_close(highway_stack(layers, x), plain(layers, x)[-1], rtol=0, atol=0)
    assert highway_stack([], x) is x
    frozen = stack("sum")
    for layer in frozen:
        layer.requires_grad_(False)
    x.requires_grad_()
    true = torch.autograd.grad(plain(frozen, x)[-1].square().sum(), x)
    assert relative(torch.autograd.grad(highway_stack(frozen, x, iterations=DEPTH).square().sum(), x), true) < 1e-13


def test_a_block_shows_what_its_forward_does():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for options in (dict(modes=(3, 3), local=True), dict(modes=(3, 3), block="classic", local=True)):
            model = build_model("fno", in_channels=1, out_channels=1, width=6, depth=2, **options).double()
            h = draw(2, 8, 8, 6)
            for block in model.blocks:
                expected = block(h, FIELDS.grid, (1, 1))
                shown = h
                for g, r in block.layers(FIELDS.grid, (1, 1)):
                    shown = shown + g(shown) if r is None else r(shown, g(shown))
                torch.testing.assert_close(shown, expected, rtol=0, atol=0)
                assert len(block.layers(FIELDS.grid, (1, 1))) == (2 if isinstance(block, ResidualBlock) else 1)
    assert highway_rnn is not None
