"""State-space mixer: kernels, convolutions, states against dense float64 references; what breaks when a part is off."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sciops.grids import Grid
from sciops.mixers import StateSpaceMixer
from sciops.mixers.sequence import long_convolution, state_space
from sciops.mixers.sequence.exponential_sums import exponential_sum, phi, weighted_past
from sciops.mixers.sequence.long_convolution import convolved, fast_length
from sciops.mixers.sequence.state_space import state_space_groups
from sciops.models import Operator

D = 6


def made(**options):
    torch.manual_seed(3)
    mixer = StateSpaceMixer(D, **{"state": 8, "dt_min": 0.02, "dt_max": 0.3} | options).double()
    with torch.no_grad():
        for p in (mixer.key.bias, mixer.out.bias, *mixer.kernel.dynamics()):
            p.add_(0.2 * torch.randn_like(p))
    return mixer


def field(*shape, seed=0):
    return torch.randn(*shape, D, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def sampled(mixer, length, *, axis=0, scale=1.0):
    """K_l of every direction and kernel, from the formula, a table of all modes at all positions."""
    k, (axes, kernels, modes) = mixer.kernel, mixer.kernel.shape
    dt = scale * k.log_dt.view(axes, kernels, 1)[axis].exp()
    a = torch.complex(-k.log_decay.exp(), k.frequency).view(axes, kernels, modes)[axis]
    b = torch.view_as_complex(k.into.view(axes, kernels, modes, 2))[axis]
    c = torch.view_as_complex(k.out_of)[axis]
    at = torch.arange(length, dtype=torch.float64)
    powers = (dt * a)[..., None].mul(at).exp()
    whole = ((dt * a).exp() - 1) / a
    if mixer.kernel.hold == "zero":
        return 2 * torch.einsum("dhn,hnl->dhl", c * b * whole, powers).real
    falling = ((dt * a).exp() - 1 - dt * a) / (dt * a * a)  # ∫ e^{As} (1 − s/Δ) ds
    result = 2 * torch.einsum("dhn,hnl->dhl", c * b * falling, powers).real
    result[..., 1:] += 2 * torch.einsum("dhn,hnl->dhl", c * b * (whole - falling), powers[..., :-1]).real
    return result


def matrix(mixer, length, *, axis=0, scale=1.0, periodic=False, skip=True):
    """(channels, length, length): what the convolution multiplies every channel with."""
    turns = 8000 // length if periodic else 1
    kernels = sampled(mixer, turns * length, axis=axis, scale=scale).unflatten(-1, (turns, length)).sum(-2)
    lag = torch.arange(length)[:, None] - torch.arange(length)
    full = torch.zeros(kernels.shape[1], length, length, dtype=torch.float64)
    for kernel, ahead in zip(kernels, (lag, -lag)):
        full += torch.where((ahead >= 0) | periodic, kernel[:, ahead % length], 0.0)
    if skip:
        full += torch.diag_embed(mixer.skip[:, None].expand(-1, length))
    return full.repeat(mixer.heads, 1, 1)


def dense(mixer, x, **how):
    """The whole mixer along one axis."""
    y = torch.einsum("cij,bjc->bic", matrix(mixer, x.shape[1], **how), mixer.key(x))
    return mixer.out(y if mixer.query is None else mixer.query(x) * y)


def off(a, b):
    return float((a - b).detach().abs().max() / b.detach().abs().max())


# convolutions


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("options", [{}, {"heads": 3, "gate": False}, {"dt_scale": 0.3}, {"hold": "first"}])
@pytest.mark.parametrize("length", [1, 2, 23, 40])
def test_the_mixer_is_its_dense_matrix(causal, options, length):
    mixer, x = made(causal=causal, **options), field(2, length)
    assert off(mixer(x), dense(mixer, x, scale=options.get("dt_scale", 1.0))) < 1e-13


def test_lag_0_receives_both_kernels_and_the_skip_once():
    mixer, x = made(gate=False), field(1, 1)
    both = sampled(mixer, 1)[:, :, 0].sum(0) + mixer.skip
    assert off(mixer(x), mixer.out(both * mixer.key(x))) < 1e-14


def test_both_ways_is_causal_plus_flipped_causal():
    mixer, z = made(), field(2, 31).mT
    n = fast_length(61)
    to, fro = mixer.kernel(31, periodic=False, dtype=torch.float64)
    both, _ = mixer._lags(31, 0, 1.0, False, torch.float64)
    expected = convolved(z, to, n) + convolved(z.flip(-1), fro, n).flip(-1) + mixer.skip[:, None] * z
    assert off(convolved(z, both, n), expected) < 1e-13


def test_the_two_kernels_exchanged_are_the_order_reversed():
    mixer, other, x = made(), made(), field(2, 27)
    with torch.no_grad():
        other.kernel.out_of.copy_(mixer.kernel.out_of.flip(1))
    assert off(other(x), mixer(x.flip(1)).flip(1)) < 1e-13
    assert off(mixer(x), mixer(x.flip(1)).flip(1)) > 0.1


def test_an_fft_without_padding_wraps_around():
    mixer, z = made(causal=True), field(1, 40).mT
    (kernel,) = mixer.kernel(40, periodic=False, dtype=torch.float64)
    assert off(convolved(z, kernel, 40), convolved(z, kernel, fast_length(79))) > 0.1


@pytest.mark.parametrize("at_once", [1, 10**9])
@pytest.mark.parametrize("n, lags", [(9, 5), (12, 12), (5, 5)])
def test_derivatives_of_the_convolution(monkeypatch, at_once, n, lags):
    monkeypatch.setitem(long_convolution._AT_ONCE, "cpu", at_once)
    z, k = field(2, 5)[..., :3].mT.requires_grad_(), field(lags, seed=1)[..., :3].mT.requires_grad_()
    table = torch.zeros(5, 5, n, dtype=torch.float64)
    for i in range(5):
        for j in range(5):
            table[i, j, (i - j) % n] = 1
    direct = torch.einsum("ijl,hl,bhj->bhi", table[..., :lags], k, z)
    assert off(convolved(z, k, n), direct) < 1e-14
    assert torch.autograd.gradcheck(lambda z, k: convolved(z, k, n), (z, k))
    assert torch.autograd.gradgradcheck(lambda z, k: convolved(z, k, n), (z, k))


@pytest.mark.parametrize("options", [{}, {"heads": 3}, {"causal": True, "hold": "first"}, {"periodic": True}])
def test_kernels_a_few_at_a_time_are_the_kernels(monkeypatch, options):
    mixer, x = made(**options), field(2, 23).requires_grad_()
    inputs = [x, *mixer.parameters()]
    whole = mixer(x)
    g = torch.randn_like(whole)
    expected = torch.autograd.grad(whole, inputs, g)
    monkeypatch.setitem(long_convolution._AT_ONCE, "cpu", 1)
    y = mixer(x)
    assert any("Streamed" in name for name in _ancestors(y))
    assert off(y, whole) < 1e-14
    for ours, theirs in zip(torch.autograd.grad(y, inputs, g), expected):
        assert off(ours, theirs) < 1e-12
    with torch.no_grad():
        assert off(mixer(x), whole) < 1e-14
    some = [mixer.kernel.log_dt, mixer.kernel.out_of, mixer.skip, x]

    def curvature():
        first = torch.autograd.grad(mixer(x).sin().sum(), some, create_graph=True)
        return torch.autograd.grad(sum(f.square().sum() for f in first), some)

    streamed = curvature()
    monkeypatch.setitem(long_convolution._AT_ONCE, "cpu", 10**9)
    for ours, theirs in zip(streamed, curvature()):
        assert off(ours, theirs) < 1e-12


def _ancestors(y):
    seen, waiting = set(), [y.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [parent for parent, _ in node.next_functions]
    return {type(node).__name__ for node in seen}


def test_fast_lengths_are_the_next_products_of_2_3_and_5():
    smooth = sorted(2**a * 3**b * 5**c for a in range(12) for b in range(8) for c in range(6))
    for n in [*range(1, 700), 1021, 1999]:
        assert fast_length(n) == next(m for m in smooth if m >= n)


# kernels


@pytest.mark.parametrize("hold", ["zero", "first"])
def test_the_kernel_is_the_answer_of_a_real_state_space_to_a_held_impulse(hold):
    """u = 1 at time 0, kept for a step, or falling to 0 within the steps to both sides; every mode a real 2×2 block."""
    mixer = made(heads=3, hold=hold)
    kernel, modes = mixer.kernel, 4
    got = kernel(17, periodic=False, dtype=torch.float64)
    for h in range(2):
        dt = kernel.log_dt[h].exp()
        a = torch.zeros(8, 8, dtype=torch.float64)
        b, c = kernel.into.view(2, 8)[h], 2 * kernel.out_of[0, :, h].clone().flatten(1)
        c[:, 1::2] *= -1  # 2 Re(c s) = 2 (Re c Re s − Im c Im s)
        for n in range(modes):
            decay, omega = kernel.log_decay[4 * h + n].exp(), kernel.frequency[4 * h + n]
            a[2 * n : 2 * n + 2, 2 * n : 2 * n + 2] = torch.stack([-decay, -omega, omega, -decay]).view(2, 2)
        joint = torch.zeros(10, 10, dtype=torch.float64)  # (s, u, du/dt)
        joint[:8, :8], joint[:8, 8], joint[8, 9] = a, b, 1
        step = torch.matrix_exp(dt * joint)
        if hold == "zero":
            state = step[:8, 8]
        else:
            state = step[:8, 9] / dt
        for lag in range(17):
            assert (got[:, h, lag] - c @ state).abs().max() < 1e-13
            state = step[:8, :8] @ state
            if hold == "first" and lag == 0:
                state = state + step[:8, 8] - step[:8, 9] / dt


@pytest.mark.parametrize("length", [1, 2, 3, 5, 64, 77])
def test_sums_in_blocks_are_the_sums_of_all(length):
    generator = torch.Generator().manual_seed(0)
    rates = torch.complex(-torch.rand(3, 4, generator=generator), 9 * torch.rand(3, 4, generator=generator)).to(
        torch.complex128
    )
    coefficients = torch.randn(2, 3, 4, dtype=torch.complex128, generator=generator)
    z = torch.randn(2, 3, length, dtype=torch.float64, generator=generator)
    table = (rates[..., None] * torch.arange(length)).exp()
    expected = 2 * torch.einsum("bhn,hnl->bhl", coefficients, table).real
    torch.testing.assert_close(exponential_sum(coefficients, rates, length), expected, rtol=0, atol=1e-13)
    expected = torch.einsum("bhl,hnl->bhn", z.to(torch.complex128), table.flip(-1))
    torch.testing.assert_close(weighted_past(z, rates), expected, rtol=0, atol=1e-13)


def test_nothing_breaks_where_a_mode_does_not_decay_or_decays_at_once():
    z = torch.tensor([0.0, 1e-30, 1e-9j, 1e-4 + 1e-4j, -1e-3, 0.3 + 0.39j, -0.3 + 0.41j, -2 + 1j])
    z = z.to(torch.complex128)
    for order in (1, 2, 3):
        series = sum(z**k / float(math.factorial(k + order)) for k in range(30))
        assert (phi(z, order) - series).abs().max() < 2e-15
        assert torch.autograd.gradcheck(lambda z: phi(z, order), z.clone().requires_grad_())  # noqa: B023
        assert torch.autograd.gradgradcheck(lambda z: phi(z, order), z.clone().requires_grad_())  # noqa: B023
    for extreme in (-200.0, 200.0):
        for frequency, hold in ((0.0, "zero"), (3.0, "zero"), (0.0, "first"), (3.0, "first")):
            mixer = StateSpaceMixer(D, state=4, hold=hold)
            with torch.no_grad():
                mixer.kernel.log_decay.fill_(extreme)
                mixer.kernel.frequency.fill_(frequency)
            rates, *_ = mixer.kernel.discretised(0, scale=1.0, dtype=torch.float32)
            assert (rates.real < 0).all()
            y = mixer(field(1, 50).float())
            y.square().sum().backward()
            assert y.isfinite().all()
            assert all(p.grad.isfinite().all() for p in mixer.parameters())


def test_steps_r_times_smaller_sample_the_same_kernel_with_the_weight_of_their_quadrature():
    mixer = made()
    coarse = sampled(mixer, 40, scale=0.02)
    errors, unscaled = [], []
    for r in (2, 4):
        fine = mixer.kernel(40 * r, scale=0.02 / r, periodic=False, dtype=torch.float64)[..., ::r]
        errors.append(off(r * fine, coarse))
        unscaled.append(off(mixer.kernel(40 * r, scale=0.02, periodic=False, dtype=torch.float64)[..., ::r], coarse))
    # zero-order hold: C̄ = C Δ (1 + ΔA/2 + …), so r K_fine − K = −(1 − 1/r) ΔA/2 K at first order
    assert errors[0] < 0.05 and errors[1] / errors[0] == pytest.approx(1.5, abs=0.1)
    first = [
        2 * mixer.kernel(1, scale=s / 2, periodic=False, dtype=torch.float64) - sampled(mixer, 1, scale=s)
        for s in (0.02, 0.002)
    ]
    assert off(100 * first[1], first[0]) < 0.05
    assert min(unscaled) > 0.3


# grids


@pytest.mark.parametrize("length", [23, 24])
@pytest.mark.parametrize("ring, hold", [(True, "zero"), ("auto", "first")])
def test_on_a_ring_the_kernel_is_the_sum_over_all_turns(length, ring, hold):
    mixer, x = made(periodic=ring, heads=2, hold=hold), field(2, length)
    y = mixer(x, Grid((length,), centering="periodic"))
    assert off(y, dense(mixer, x, periodic=True)) < 1e-11
    assert off(mixer(x.roll(5, 1), Grid((length,), centering="periodic")), y.roll(5, 1)) < 1e-13
    opened = made(periodic=False, heads=2, hold=hold)
    assert off(opened(x.roll(5, 1), Grid((length,), centering="periodic")), opened(x).roll(5, 1)) > 0.01
    assert off(opened(x), y) > 0.01


def test_auto_is_open_without_a_ring_and_under_a_mask():
    mixer, x = made(), field(2, 20)
    line, ring = Grid((20,)), Grid((20,), centering="periodic")
    assert torch.equal(mixer(x, line), mixer(x))
    assert torch.equal(mixer(x, ring, mask=torch.ones(2, 20, dtype=torch.bool)), mixer(x))
    causal = made(causal=True)
    assert torch.equal(causal(x, ring), causal(x))
    with pytest.raises(ValueError, match="pass periodic=False"):
        made(periodic=True)(x, mask=torch.ones(2, 20, dtype=torch.bool))


@pytest.mark.parametrize("hold, order", [("zero", 1), ("first", 2)])
def test_a_finer_grid_gives_the_same_field_where_the_spacing_is_known(hold, order):
    known, blind = made(reference_spacing=1 / 64, dt_scale=0.2, hold=hold), made(dt_scale=0.2, hold=hold)
    results = {}
    for n in (64, 128, 256, 512):
        at = torch.arange(n, dtype=torch.float64) / n
        x = torch.stack([(2 * math.pi * (k % 3 + 1) * at + k).sin() for k in range(D)], -1)[None]
        grid = Grid((n,), centering="periodic")
        results[n] = [m(x, grid)[:, :: n // 64] for m in (known, blind)]
    errors = [off(results[n][0], results[2 * n][0]) for n in (64, 128, 256)]
    assert errors[0] < 0.2**order and off(results[64][1], results[128][1]) > 3 * errors[0]
    assert errors[2] / errors[1] == pytest.approx(2.0**-order, rel=0.1)


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("centering", ["node", "periodic"])
def test_on_a_plane_lines_of_both_directions_are_summed(axes, centering):
    mixer, x = made(axes=axes, reference_spacing=(0.2, 0.1)), field(2, 5, 8)
    grid = Grid((5, 8), 1.0, centering)
    ring, z = centering == "periodic", mixer.key(x)
    scales = [h / r for h, r in zip(grid.spacing, (0.2, 0.1))]
    down = matrix(mixer, 5, scale=scales[0], periodic=ring)
    along = matrix(mixer, 8, axis=axes - 1, scale=scales[1], periodic=ring, skip=False)
    y = torch.einsum("cij,bjkc->bikc", down, z) + torch.einsum("cij,bkjc->bkic", along, z)
    assert off(mixer(x, grid), mixer.out(mixer.query(x) * y)) < 1e-11


def test_flattened_a_plane_is_one_sequence():
    mixer, x = made(flatten=True), field(2, 5, 8)
    rows = dense(mixer, x.flatten(1, 2)).view(x.shape)
    assert off(mixer(x, Grid((5, 8), centering="periodic")), rows) < 1e-13
    assert off(made()(x), rows) > 0.1


def test_flattened_in_an_operator_of_a_plane():
    model = Operator(1, 1, width=8, depth=1, mixer="state_space", mixer_options=dict(state=4, flatten=True), ndim=2)
    assert model.blocks[0].mixer.axes == 1 and model(torch.randn(1, 1, 5, 6)).isfinite().all()


@pytest.mark.parametrize("ndim", [1, 2])
def test_as_the_mixer_of_an_operator(ndim):
    torch.manual_seed(0)
    grid = Grid((12, 10)[:ndim], centering="periodic")
    model = Operator(
        1, 2, width=8, depth=2, mixer="state_space", mixer_options=dict(state=4, reference_spacing=0.1), grid=grid
    )
    y = model(torch.randn(3, 1, *grid.shape))
    y.square().sum().backward()
    assert y.shape == (3, 2, *grid.shape) and y.isfinite().all()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
    assert model.blocks[0].mixer.axes == ndim
    shifted = model(torch.ones(1, 1, *grid.shape))
    assert (shifted - shifted.roll(3, 2)).abs().max() < 1e-5  # no point of a ring is the first


# sequences


def test_padding_is_masked_after_the_bias():
    mixer, x = made(), field(2, 23)
    mask = torch.arange(23) < torch.tensor([23, 14])[:, None]
    zeroed = torch.where(mask[..., None], x, 0.0)
    alone = mixer(x[1:, :14])
    assert off(mixer(x, mask=mask)[1:, :14], alone) < 1e-13
    assert off(mixer(zeroed)[1:, :14], alone) > 1e-3  # what is 0 before W_k x + b_k is b_k after it


def test_steps_are_the_recurrence_and_see_no_later_token_at_all():
    mixer, x = made(causal=True, heads=2), field(2, 30)
    kernel = mixer.kernel
    dt = kernel.log_dt.exp()[:, None]
    a = torch.complex(-kernel.log_decay.exp(), kernel.frequency).view(3, 4)
    b, c = torch.view_as_complex(kernel.into.view(3, 4, 2)), torch.view_as_complex(kernel.out_of[0, 0])
    z, past, outputs = mixer.key(x), torch.zeros(2, D, 4, dtype=torch.complex128), []
    for t in range(30):
        past = (dt * a).exp().repeat(2, 1) * past + z[:, t, :, None]
        y = 2 * ((c * b * ((dt * a).exp() - 1) / a).repeat(2, 1) * past).sum(-1).real
        y = y + mixer.skip.repeat(2) * z[:, t]
        outputs.append(mixer.out(mixer.query(x[:, t]) * y))
    expected = torch.stack(outputs, 1)
    assert off(mixer(x), expected) < 1e-13

    def stepped(x):
        state, got = None, []
        for t in range(30):
            y, state = mixer.step(x[:, t], state)
            got.append(y)
        return torch.stack(got, 1)

    assert off(stepped(x), expected) < 1e-13
    changed = x.clone()
    changed[:, 17:] *= -100
    assert torch.equal(stepped(changed)[:, :17], stepped(x)[:, :17])
    assert (mixer(changed)[:, :17] - mixer(x)[:, :17]).abs().max() < 1e-11  # an FFT leaks its round-off


@pytest.mark.parametrize("chunk", [1, 5, 8, 100])
def test_chunks_of_a_prefill_are_joined_by_the_state(monkeypatch, chunk):
    monkeypatch.setattr(state_space, "_CHUNK", chunk)
    mixer, x = made(causal=True), field(3, 23)
    mask = torch.arange(23) < torch.tensor([23, 6, 14])[:, None]
    y, state = mixer.prefill(x, mask=mask)
    for i, length in enumerate((23, 6, 14)):
        alone = mixer(x[i : i + 1, :length])
        assert off(y[i, :length], alone[0]) < 1e-13
        longer = mixer(torch.cat([x[i, :length], x[0, :4]])[None])
        after, _ = mixer.prefill(x[:1, :4], type(state)(state.past[i : i + 1]))
        assert off(after, longer[:, length:]) < 1e-13
    empty, kept = mixer.prefill(x[:, :0], state)
    assert empty.shape == (3, 0, D) and torch.equal(kept.past, state.past)


# cost and precision


class _Sizes(TorchDispatchMode):
    """The largest result of any operation."""

    largest = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for t in tree_leaves(out):
            if isinstance(t, torch.Tensor) and t.is_floating_point():
                self.largest = max(self.largest, t.numel())
            elif isinstance(t, torch.Tensor) and t.is_complex():
                self.largest = max(self.largest, 2 * t.numel())
        return out


@pytest.mark.parametrize("causal", [True, False])
def test_no_table_of_modes_by_positions_is_ever_made(causal):
    length, state = 4096, 64
    mixer = StateSpaceMixer(D, state=state, causal=causal)
    x, kept = field(1, length).float().requires_grad_(), {}

    def keep(t):
        kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes() // 4
        return t

    with _Sizes() as sizes:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            y = mixer(x)
        y.square().sum().backward()
    table = D * state * length  # real numbers: modes are pairs
    assert sizes.largest < table / 8
    assert sum(kept.values()) < table / 4
    assert sum(kept.values()) > D * length  # x at least was kept


def test_half_precision_leaves_the_kernel_in_float32():
    mixer, x = made().float(), field(2, 400).float()
    exact = mixer(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert off(mixer(x).float(), exact) < 0.03
    half = made().to(torch.bfloat16)
    assert {p.dtype for p in half.kernel.parameters()} == {torch.float32}
    assert half.key.weight.dtype == torch.bfloat16 and half(x.bfloat16()).dtype == torch.bfloat16
    assert off(half(x.bfloat16()).float(), exact) < 0.05
    assert {p.dtype for p in made().kernel.parameters()} == {torch.float64}


def test_dynamics_are_not_decayed():
    from sciops.training import TrainConfig
    from sciops.training.optimization import make_optimizer

    mixer = made()
    dynamics = {id(p) for p in mixer.kernel.dynamics()}
    groups = state_space_groups(mixer, weight_decay=0.1, rate=1e-4)
    assert sum(len(group["params"]) for group in groups) == len(list(mixer.parameters()))
    for group in groups:
        inside = {id(p) in dynamics for p in group["params"]}
        assert len(inside) == 1
        assert (group.get("lr") == 1e-4) == inside.pop()
    of_training = make_optimizer(list(mixer.parameters()), TrainConfig(weight_decay=0.1), torch.device("cpu"))
    for group in (*groups, *of_training.param_groups):
        for p in group["params"]:
            assert group["weight_decay"] == (0.1 if p.ndim >= 2 else 0.0)
            assert id(p) not in dynamics or group["weight_decay"] == 0.0
    torch.optim.AdamW(groups, lr=1e-3)


def test_errors_say_what_was_expected():
    for options, message in (
        (dict(state=3), "even number"),
        (dict(heads=4), "do not divide channels=6"),
        (dict(dt_min=0.2, dt_max=0.1), "dt_min ≤ dt_max"),
        (dict(hold="second"), "'zero' or 'first'"),
        (dict(dt_scale=0.0), "positive factor"),
        (dict(periodic="yes"), "'auto', True or False"),
        (dict(periodic=True, causal=True), "drop one"),
        (dict(axes=2, flatten=True), "exactly 1"),
        (dict(reference_spacing=-1.0), "positive length"),
    ):
        with pytest.raises(ValueError, match=message):
            StateSpaceMixer(D, **options)
    with pytest.raises(ValueError, match="pass axes=1"):
        made(axes=2)(field(1, 9))
    for x, grid in ((field(1, 9), Grid((8,))), (field(1, 3, 4), Grid((4, 3))), (field(1, 3, 4), Grid((2, 6)))):
        with pytest.raises(ValueError, match="pass the grid x was sampled on"):
            made(reference_spacing=0.1)(x, grid)
    for x in (field(1, 9), field(1, 3, 4, 2)):
        with pytest.raises(ValueError, match="one length, or one each"):
            made(reference_spacing=(0.1, 0.2))(x, Grid(tuple(x.shape[1:-1])))
