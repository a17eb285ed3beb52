"""Private gradients of several dense networks at once, without holding the gradient of each record."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from sciops.models.generative import DenseNetworks, Tap
from sciops.training.private import PrivateGradients


def stacked_private_gradients(
    networks: DenseNetworks,
    loss: Callable[[Callable[[Tensor], Tensor]], Tensor],
    present: Tensor,
    *,
    private: PrivateGradients,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Writes the private gradient of every network of a stack into ``.grad``; returns the records' gradient norms.

    The gradient of `sciops.training.private.private_gradients`, for M networks with a batch each::

        g_m = (1/(q n)) (Σ_i p_mi g_mi · min(1, C/‖g_mi‖) + N(0, σ²C² I))

    With a_r what a layer is given in row r of a record, and d_r the gradient of the record's loss with respect to what
    the layer gives, the record's gradients are Σ_r a_r d_rᵀ of the weights and Σ_r d_r of the bias, so that::

        ‖g‖² = Σ_layers Σ_rs (a_r·a_s + 1)(d_r·d_s)

    Neither needs the gradient of a single record: one backward pass serves norms and sum.

    Parameters
    ----------
    networks : DenseNetworks, the stack of M
    loss : ``loss(call)`` → (M, n), the loss of every record; `call` runs the networks on (M, n, …, in), in which
        network m's record i has rows of its own (copies with different noise, say), and is called once
    present : (M, n) 1 where the record is in the batch, 0 for padding
    private : PrivateGradients; `chunk` and `engine` are not used
    generator : of the noise, on the device of the parameters

    Returns
    -------
    (M, n) norms before they were cut

    Raises
    ------
    ValueError
        Shapes do not fit, `call` was not called once, or the norm of a record in the batch is not finite.

    References
    ----------
    Bu et al., "Differentially private optimization on large model at small cost", arXiv:2210.00038 (book-keeping);
    Goodfellow, "Efficient per-example gradient computations", arXiv:1510.01799 (norms).
    """
    taps: list[Tap] = []

    def call(x: Tensor) -> Tensor:
        if taps or x.shape[:2] != present.shape:
            raise ValueError(
                f"call ran on {tuple(x.shape)}{' a second time' if taps else ''}: expected one call on "
                f"{tuple(present.shape)} records"
            )
        found, each = networks.tapped(x)
        taps.extend(each)
        return found

    values = loss(call)
    if not taps or values.shape != present.shape:
        raise ValueError(f"the losses have shape {tuple(values.shape)}: expected {tuple(present.shape)}, from one call")
    n = present.shape[1]
    if n:
        slopes = torch.autograd.grad(values.sum(), [tap.found for tap in taps])
    else:  # of a batch without records noise alone is left
        slopes = tuple(torch.zeros_like(tap.found) for tap in taps)
    rows = [
        (tap.given.reshape(*present.shape, -1, tap.given.shape[-1]), d.reshape(*present.shape, -1, d.shape[-1]))
        if n
        else (tap.given, d)
        for tap, d in zip(taps, slopes)
    ]
    factor, norms = present.to(values.dtype), values.detach().new_zeros(values.shape)
    if n:
        squares = sum(((a @ a.mT + 1) * (d @ d.mT)).sum((-1, -2)) for a, d in rows)
        norms = torch.as_tensor(squares).clamp_min(0).sqrt()
        if not bool(torch.isfinite(norms[present.bool()]).all()):
            raise ValueError(f"{int((~torch.isfinite(norms)).sum())} records have gradients that are not finite")
        factor = factor * (private.clip / norms.clamp_min(1e-30)).clamp_max(1.0)
    for (a, d), weight, bias in zip(rows, networks.weights, networks.biases):
        scaled = (factor[..., None, None] * d if n else d).reshape(len(weight), -1, d.shape[-1])
        sums = a.reshape(len(weight), -1, a.shape[-1]).mT @ scaled, scaled.sum(1)
        for parameter, total in zip((weight, bias), sums):
            if private.noise:
                drawn = torch.randn(
                    parameter.shape, generator=generator, dtype=parameter.dtype, device=parameter.device
                )
                total = total + private.noise * private.clip * drawn
            parameter.grad = total / private.expected_batch
    return norms


def poisson_batches(member: Tensor, rate: float, *, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
    """A Poisson batch for every model of a stack, padded to the size of the largest.

    Parameters
    ----------
    member : (M, records) booleans, True where the record is in the model's training set
    rate : q, the probability with which a member is in the batch
    generator : of the draws, on the device of `member`

    Returns
    -------
    indices, present : (M, n) records, and whether each is in the batch or padding
    """
    if not 0 < rate <= 1:
        raise ValueError(f"rate={rate}: expected a probability above 0 and at most 1")
    drawn = member & (torch.rand(member.shape, generator=generator, device=member.device) < rate)
    most = int(drawn.sum(1).max()) if drawn.numel() else 0
    order = drawn.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :most]
    return order, drawn.gather(1, order)
