"""Differentially private gradients: each record's gradient is cut, and noise hides any one of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

Engine = Literal["vmap", "loop"]


@dataclass(frozen=True)
class PrivateGradients:
    """How gradients are made private.

    noise : σ, standard deviation of the noise in units of `clip`
    clip : C, largest norm of one record's gradient
    expected_batch : q·n, the mean size of a batch that takes each record with probability q
    chunk : records whose gradients are held at once; None for all
    engine : see `sample_gradients`

    Raises ValueError for a negative noise, or a clip or batch that is not positive.
    """

    noise: float
    clip: float
    expected_batch: float
    chunk: int | None = None
    engine: Engine = "vmap"

    def __post_init__(self) -> None:
        if not self.noise >= 0 or not self.clip > 0 or not self.expected_batch > 0:
            raise ValueError(
                f"noise={self.noise}, clip={self.clip}, expected_batch={self.expected_batch}: expected a noise of at "
                "least 0, and a positive clip and batch"
            )
        if self.noise and math.isinf(self.clip):
            raise ValueError("noise without a finite clip protects nothing: pass clip")


def sample_gradients(
    model: nn.Module,
    loss: Callable[..., Tensor],
    batch: Any,
    *,
    chunk: int | None = None,
    engine: Engine = "vmap",
) -> dict[str, Tensor]:
    """Gradients of every record's loss: name → (records, *parameter).

    Parameters
    ----------
    model : torch module without state that records share (no BatchNorm in training mode)
    loss : ``loss(call, record)`` → scalar, where ``call(*inputs)`` runs the model and the record has a batch axis of 1
    batch : tensors (records, …), or a mapping or tuple of them
    chunk : records at once, for "vmap"
    engine : {"vmap", "loop"}
        All records at once by `torch.func`, or one after the other by autograd: slower, and for models that
        `torch.func` cannot transform.

    Raises
    ------
    ValueError
        The model has BatchNorm layers in training mode, which mix records; `torch.func` cannot transform the model; or
        its forward pass changes a buffer, which would carry statistics of the records unprotected.

    Notes
    -----
    By `torch.func.vmap` over `torch.func.grad`: no hooks, so that it serves models whose layers take a grid. Parameters
    that two modules share count once. A forward pass that draws random numbers (dropout, the mean of a flow's samples)
    draws for each record separately, so that it equals a loop in distribution only.
    """
    if engine not in ("vmap", "loop"):
        raise ValueError(f"engine={engine!r}: expected 'vmap' or 'loop'")
    mixed = [name for name, m in model.named_modules() if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.training]
    if mixed:
        raise ValueError(
            f"{mixed[0]} is a BatchNorm, which mixes records: replace it (GroupNorm), or call model.eval()"
        )
    parameters = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    fixed = {name: p.detach() for name, p in model.named_parameters() if not p.requires_grad}
    if engine == "loop":
        return _looped(model, loss, batch, parameters, fixed)
    fixed |= {name: b.detach() for name, b in model.named_buffers()}

    def of_one(values: Mapping[str, Tensor], record: Any) -> Tensor:
        one = torch.utils._pytree.tree_map(lambda x: x[None], record)
        return loss(_call(model, values, fixed), one)

    mapped = torch.func.vmap(torch.func.grad(of_one), in_dims=(None, 0), randomness="different", chunk_size=chunk)
    try:
        return mapped(parameters, batch)
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        reason = str(error).strip().split("\n")[0].split(". ")[0]
        raise ValueError(
            f"torch.func cannot transform {type(model).__name__} or its loss ({reason}): pass engine='loop'"
        ) from error


def _call(model: nn.Module, values: Mapping[str, Tensor], fixed: Mapping[str, Tensor]) -> Callable[..., Any]:
    def call(*inputs: Any, **options: Any) -> Any:
        return torch.func.functional_call(model, (dict(values), dict(fixed)), inputs, options)

    return call


def _looped(
    model: nn.Module, loss: Callable[..., Tensor], batch: Any, parameters: dict[str, Tensor], fixed: dict[str, Tensor]
) -> dict[str, Tensor]:
    values = {name: p.clone().requires_grad_(True) for name, p in parameters.items()}
    buffers = {name: b.detach() for name, b in model.named_buffers()}
    records = len(torch.utils._pytree.tree_leaves(batch)[0])
    found = {name: p.new_zeros(records, *p.shape) for name, p in parameters.items()}
    for i in range(records):
        kept = {name: b.clone() for name, b in buffers.items()}  # what the model changes are these copies
        one = torch.utils._pytree.tree_map(lambda x, i=i: x[i : i + 1], batch)
        value = loss(_call(model, values, fixed | kept), one)
        changed = [name for name, b in buffers.items() if not torch.equal(kept[name], b)]
        if changed:
            raise ValueError(
                f"the forward pass changes the buffer {changed[0]}, which would carry statistics of the records: "
                "call model.eval(), or replace the layer"
            )
        for name, g in zip(values, torch.autograd.grad(value, list(values.values()), allow_unused=True)):
            if g is not None:
                found[name][i] = g
    return found


def private_gradients(
    model: nn.Module,
    loss: Callable[..., Tensor],
    batch: Any,
    *,
    private: PrivateGradients,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Writes the private gradient of a batch into the model's ``.grad``; returns the records' gradient norms.

    g = (1/(q n)) (Σ_i g_i · min(1, C/‖g_i‖) + N(0, σ²C² I)), with the expected size of the batch, not its own: the size
    of a batch would tell whether a record was in it. A batch without records gives noise alone.

    Parameters
    ----------
    model, loss, batch : as for `sample_gradients`
    private : PrivateGradients
    generator : of the noise, on the device of the parameters

    Returns
    -------
    (records,) norms before they were cut

    Raises
    ------
    ValueError
        As `sample_gradients`; or a record's gradient is not finite, which no cut makes private.

    References
    ----------
    Abadi et al., Deep learning with differential privacy (2016).
    """
    wanted = {name: p for name, p in model.named_parameters() if p.requires_grad}
    leaves = torch.utils._pytree.tree_leaves(batch)
    if len(leaves[0]):
        each = sample_gradients(model, loss, batch, chunk=private.chunk, engine=private.engine)
        squares = torch.stack([_real(g).reshape(len(g), -1).double().square().sum(1) for g in each.values()])
        norms = squares.sum(0).sqrt()
        if not bool(torch.isfinite(norms).all()):
            raise ValueError(f"{int((~torch.isfinite(norms)).sum())} records have gradients that are not finite")
        factor = (private.clip / norms.clamp_min(1e-300)).clamp_max(1.0)
    else:
        each, norms, factor = {}, leaves[0].new_zeros(0, dtype=torch.float64), leaves[0].new_zeros(0)
    for name, parameter in wanted.items():
        if each:
            total = torch.tensordot(factor.to(each[name].dtype), each[name], dims=1)
        else:
            total = torch.zeros_like(parameter)
        if private.noise:
            total = total + private.noise * private.clip * _noise_like(parameter, generator)
        parameter.grad = total / private.expected_batch
    return norms


def _real(values: Tensor) -> Tensor:
    """Real and imaginary parts are two coordinates of a complex parameter."""
    return torch.view_as_real(values) if values.is_complex() else values


def _noise_like(parameter: Tensor, generator: torch.Generator | None) -> Tensor:
    """N(0, 1) for every real coordinate; torch's complex normal numbers have half of that variance."""
    drawn = torch.randn(
        _real(parameter.detach()).shape,
        generator=generator,
        dtype=parameter.real.dtype if parameter.is_complex() else parameter.dtype,
        device=parameter.device,
    )
    return torch.view_as_complex(drawn) if parameter.is_complex() else drawn


def poisson_batch(records: int, rate: float, *, generator: torch.Generator | None = None) -> Tensor:
    """Indices of a batch that takes each record with probability `rate`, by itself: the accountant's assumption."""
    if not 0 < rate <= 1:
        raise ValueError(f"rate={rate}: expected a probability above 0")
    return torch.nonzero(torch.rand(records, generator=generator) < rate)[:, 0]


def spent_epsilon(*, noise: float, rate: float, steps: int, delta: float, accountant: str = "rdp") -> float:
    """ε after that many steps with Poisson batches.

    Parameters
    ----------
    noise : σ; 0 gives infinity
    rate : q
    steps : T
    delta : δ
    accountant : {"rdp", "pld", "prv", "gdp"}
        Rényi, by opacus (fast; up to a fifth above the others); the privacy loss distribution, by
        `sciops.evaluation.privacy.composed_epsilon` (tight); the same by opacus; or the central limit (a check, no
        guarantee; below the others).

    Notes
    -----
    What Rényi's count has too much is lost where it is converted to (ε, δ), not for want of orders: 600 orders instead
    of opacus' 151 lower ε by less than 0.1 %. "pld" and "prv" are tight.

    Raises
    ------
    ValueError
        A number is out of range.
    ImportError
        opacus is missing (extra ``sciops[audit]``).
    """
    if accountant not in ("rdp", "pld", "prv", "gdp"):
        raise ValueError(f"accountant={accountant!r}: expected 'rdp', 'pld', 'prv' or 'gdp'")
    if noise < 0 or not 0 < rate <= 1 or steps < 0 or not 0 < delta < 1:
        raise ValueError(f"noise={noise}, rate={rate}, steps={steps}, delta={delta}: out of range")
    if noise == 0:
        return math.inf if steps else 0.0
    if steps == 0:
        return 0.0
    if accountant == "gdp":
        from sciops.evaluation.privacy import gaussian_epsilon

        return gaussian_epsilon(delta, rate * math.sqrt(steps * math.expm1(noise**-2)))
    if accountant == "pld":
        from sciops.evaluation.privacy import composed_epsilon

        return composed_epsilon(noise=noise, rate=rate, steps=steps, delta=delta)
    counted = _accountant(accountant)
    counted.history = [(noise, rate, steps)]
    return float(counted.get_epsilon(delta))


def noise_for(*, epsilon: float, rate: float, steps: int, delta: float, accountant: str = "rdp") -> float:
    """The smallest σ, to 0.1 %, with which that many steps spend at most ε."""
    if not epsilon > 0:
        raise ValueError(f"epsilon={epsilon}: expected a positive budget")
    options: dict[str, Any] = {"rate": rate, "steps": steps, "delta": delta, "accountant": accountant}
    low, high = 0.05, 1.0
    while spent_epsilon(noise=high, **options) > epsilon:
        low, high = high, 2 * high
        if high > 1e6:
            raise ValueError(f"epsilon={epsilon}: no noise below 1e6 reaches it")
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        if spent_epsilon(noise=middle, **options) > epsilon:
            low = middle
        else:
            high = middle
    return high


def _accountant(name: str) -> Any:
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its imports
            from opacus.accountants import PRVAccountant, RDPAccountant
    except ImportError:
        raise ImportError("privacy accounting needs opacus: pip install 'sciops[audit]'") from None
    return RDPAccountant() if name == "rdp" else PRVAccountant()
