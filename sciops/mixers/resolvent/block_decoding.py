"""Decoding with structured attention: the state holds tokens of the current block and a summary of each earlier one."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from sciops.mixers.precision import full_precision
from sciops.mixers.resolvent.block_layout import block_size
from sciops.mixers.resolvent.block_routes import Before, Blocks, routes_of
from sciops.mixers.resolvent.dense import unstable
from sciops.mixers.sequence.base import lengths_of, put


class BlockState(NamedTuple):
    """The decoding state of a `BlockResolventAttention` of levels 1 and 2.

    ring : (batch, R, heads, 4d + 1), the last R = m (2m with `overlap`) tokens, that at position p in place p mod R:
    its
        query, key, x, u (what the summary of its block averages) and score
    keys, summaries : (batch, capacity, heads, d), of finished blocks
    query : (batch, heads, d), mean query of the last finished block
    gained : (batch, heads, d), C s of the current block at level 1, once it has begun
    count : (batch,), number of tokens seen. longest : largest count
    """

    ring: Tensor
    keys: Tensor
    summaries: Tensor
    query: Tensor
    gained: Tensor
    count: Tensor
    longest: int


def empty_state(mixer: Any, x: Tensor, dtype: torch.dtype) -> BlockState:
    """The state before the first token of x; raises ValueError for a block that follows from the whole length."""
    if mixer.block == "auto":
        # the block of a first segment would be another operator than that of the whole sequence
        raise ValueError(
            "block='auto' follows from the whole length, which decoding does not know: pass the number that it was in "
            f"training, block={block_size('auto', mixer.level, 512)} for 512 tokens; the weights are the same"
        )
    batch, heads, d = x.shape[0], mixer.heads, mixer.channels // mixer.heads
    size = mixer.block * (1 + mixer.overlap)
    zeros = lambda *shape: torch.zeros(batch, *shape, dtype=dtype, device=x.device)  # noqa: E731
    count = torch.zeros(batch, dtype=torch.int64, device=x.device)
    ring, one = zeros(size, heads, 4 * d + 1), zeros(heads, d)
    return BlockState(ring, zeros(0, heads, d), zeros(0, heads, d), one, one.clone(), count, 0)


def prefilled(mixer: Any, x: Tensor, state: BlockState | None, mask: Tensor | None) -> tuple[Tensor, BlockState]:
    """A segment: unfinished blocks (with `overlap`, also those before them) are processed again, with their x known."""
    lengths, n = lengths_of(x, mask), x.shape[1]
    count = torch.zeros_like(lengths) if state is None else state.count
    q, k, v = mixer._projected(x, count)
    gates = mixer.gates(x, v.dtype)
    if state is None:
        state = empty_state(mixer, x, v.dtype)
    if not x.numel():
        return mixer._merged(v, x), state
    m, d, ring = mixer.block, v.shape[-1], state.ring
    finished = count // m
    first = (finished - int(mixer.overlap)).clamp_min(0)
    known = count - first * m  # tokens processed again
    longest_known = min(int(known.max()), ring.shape[1])
    blocks = -(-(longest_known + n) // m)
    with full_precision(x):
        new = torch.cat([q, k, v, v, *(z.unsqueeze(-1) for z in gates)], -1).transpose(1, 2)
        place = torch.arange(blocks * m, device=x.device)
        is_known = place < known[:, None]
        old = ring.gather(1, _wide((first[:, None] * m + place) % ring.shape[1], ring))
        old = torch.cat([old[..., :-1], torch.zeros_like(old[..., :1]), old[..., -1:]], -1)  # no gate is needed again
        fresh = new.gather(1, _wide((place - known[:, None]).clamp(0, n - 1), new))
        # what is neither lies after the end, where nothing that is asked looks
        tokens = torch.where(is_known[..., None, None], old, fresh).transpose(1, 2).unflatten(2, (blocks, m))
        q, k, x_known, u_known, rest = tokens.split([d, d, d, d, 2], -1)
        finished_keys, finished_summaries = (z.transpose(1, 2) for z in (state.keys, state.summaries))
        which = is_known[:, None].unflatten(2, (blocks, m))
        routes, block_keys, past = routes_of(
            Blocks(q, k, rest[..., 0], rest[..., 1], None),
            level=mixer.level,
            causal=True,
            overlap=mixer.overlap,
            reduced=mixer.reduced,
            query=mixer.query,
            slopes=mixer.slopes if mixer.positions == "alibi" else None,
            before=Before(finished_keys, finished_summaries, finished, first, which, state.query),
        )
        y, solved, u = mixer.solved(routes, x_known, how="lower", past=past, known=(which, x_known, u_known))
        weights = routes.weights.unsqueeze(-2)
        block_summaries = (weights @ u).squeeze(-2)
    after = count + lengths
    at = (known[:, None] + torch.arange(n, device=x.device)).clamp(max=blocks * m - 1)
    y = y.flatten(2, 3).transpose(1, 2)
    y = mixer._merged(y.gather(1, _wide(at, y)).transpose(1, 2), x)
    kept = torch.cat([q, k, solved, u, rest[..., 1:]], -1).flatten(2, 3).transpose(1, 2)
    slots = torch.arange(ring.shape[1], device=x.device)
    position = after[:, None] - 1 - (after[:, None] - 1 - slots) % ring.shape[1]
    from_here = (position - first[:, None] * m).clamp(0, blocks * m - 1)
    renewed = (position >= count[:, None])[..., None, None]
    ring = torch.where(renewed, kept.gather(1, _wide(from_here, kept)), ring)
    new = (finished - first)[:, None] + torch.arange(blocks, device=x.device)
    keys, summaries = (
        put(old, _picked(z, new), finished, state.longest // m)
        for old, z in ((state.keys, block_keys), (state.summaries, block_summaries))
    )
    query = _picked(q.mean(3), (after // m - 1 - first)[:, None])[:, 0]
    query = torch.where((after // m > finished)[:, None, None], query, state.query)
    if mixer.level == 1:
        gained = _picked(past + routes.far @ block_summaries, ((after - 1) // m - first)[:, None])[:, 0]
        gained = torch.where((lengths > 0)[:, None, None], gained, state.gained)
    else:
        gained = state.gained
    return y, BlockState(ring, keys, summaries, query, gained, after, state.longest + n)


def stepped(mixer: Any, x: Tensor, state: BlockState) -> tuple[Tensor, BlockState]:
    """One token in O(m) operations by channel, at the start of a block at level 1 and always at level 2 O(m + n/m)."""
    q, k, v = (z.squeeze(2) for z in mixer._projected(x.unsqueeze(1), state.count))
    gate, score = (z.squeeze(-1) for z in mixer.gates(x.unsqueeze(1), v.dtype))
    m, ring, count = mixer.block, state.ring, state.count
    size, d = ring.shape[1], v.shape[-1]
    block, scaled = count // m, q * q.shape[-1] ** -0.5
    slopes = mixer.slopes.view(-1, 1).to(v.dtype) if mixer.positions == "alibi" else None
    gamma = mixer._gamma(v)
    gamma = gamma.squeeze(-1) if isinstance(gamma, Tensor) else gamma  # (heads, 1)
    with full_precision(x):
        slots = torch.arange(size, device=x.device)
        position = count[:, None] - (count[:, None] - slots) % size
        here = position // m == block[:, None]
        seen = (position >= 0) & (position // m >= block[:, None] - int(mixer.overlap))
        own = (position == count[:, None])[:, :, None, None]
        queries, keys, xs, us, scores = ring.split([d, d, d, d, 1], -1)
        queries, keys = torch.where(own, q[:, None], queries), torch.where(own, k[:, None], keys)
        scores = torch.where(own, score[:, None, :, None], scores)
        near = _scored(scaled, keys, count[:, None] - position, slopes).masked_fill(~seen[:, None], -torch.inf)
        blocks = torch.arange(state.keys.shape[1], device=x.device)
        far_seen = (blocks < block[:, None] - int(mixer.overlap))[:, None] & mixer.reduced
        if mixer.level == 1:
            gained = state.gained
            begins = count % m == 0
            if bool(begins.any()):
                asks = scaled if mixer.query == "first" else state.query * q.shape[-1] ** -0.5
                far = _scored(asks, state.keys, m * (block[:, None] - blocks), slopes)
                far = far.masked_fill(~far_seen, torch.finfo(far.dtype).min).softmax(-1) * far_seen
                gained = torch.where(begins[:, None, None], _summed(far, state.summaries), gained)
            lift = gate.sigmoid() * far_seen.any(-1)
            near, f, of_block = (1 - lift).unsqueeze(-1) * near.softmax(-1), lift.unsqueeze(-1) * gained, gained
        else:
            apart = count[:, None] - m * blocks - (m - 1) / 2
            far = _scored(scaled, state.keys, apart, slopes) + torch.tensor(float(m), dtype=near.dtype).log()
            far = far.masked_fill(~far_seen, -torch.inf)
            near, far = torch.cat([near, far], -1).softmax(-1).split([size, len(blocks)], -1)
            f = of_block = _summed(far, state.summaries)
        itself = (near * own[:, None, :, 0, 0]).sum(-1, keepdim=True)
        others = _summed(near * ~own[:, None, :, 0, 0], xs)
        passed = f if mixer.combine == "woodbury" else 0
        new = (v + gamma * (others + passed)) / (1 - gamma * itself)
        u = new if mixer.combine == "woodbury" else v + gamma * of_block
        if mixer.combine == "woodbury" and not unstable(gamma):
            y = (new - v) * ((1 - gamma) / gamma)
        else:
            y = (1 - gamma) * (others + itself * new + f)
        xs, us = torch.where(own, new[:, None], xs), torch.where(own, u[:, None], us)
        of_here = here & (position >= 0)
        weights = scores[..., 0].mT.masked_fill(~of_here[:, None], -torch.inf).softmax(-1)
        summary, key = _summed(weights, us), _summed(weights, keys)
        mean = (queries * of_here[:, :, None, None]).sum(1) / m
    longest = state.longest // m
    query = torch.where((count % m == m - 1)[:, None, None], mean, state.query)
    keys_after, summaries = (
        put(old, z[:, None], block, longest) for old, z in ((state.keys, key), (state.summaries, summary))
    )
    ring = torch.cat([queries, keys, xs, us, scores], -1)
    if mixer.level == 2:
        gained = state.gained
    y = mixer._merged(y.unsqueeze(2), x).squeeze(1)
    return y, BlockState(ring, keys_after, summaries, query, gained, count + 1, state.longest + 1)


def _scored(q: Tensor, keys: Tensor, apart: Tensor, slopes: Tensor | None) -> Tensor:
    """(batch, heads, n): q (batch, heads, d) with keys (batch, n, heads, d) at the distances apart (batch, n)."""
    scores = (keys.transpose(1, 2) @ q.unsqueeze(-1)).squeeze(-1)
    return scores if slopes is None else scores - slopes * apart[:, None].to(scores.dtype)


def _summed(weights: Tensor, z: Tensor) -> Tensor:
    """Σ_j weights_j z_j (batch, heads, d) of weights (batch, heads, n) and z (batch, n, heads, d)."""
    return (weights.unsqueeze(-2) @ z.transpose(1, 2)).squeeze(-2)


def _picked(z: Tensor, index: Tensor) -> Tensor:
    """(batch, k, heads, d): the blocks `index` (batch, k) of z (batch, heads, K, d), the nearest that there is."""
    return z.transpose(1, 2).gather(1, _wide(index.clamp(0, z.shape[2] - 1), z.transpose(1, 2)))


def _wide(index: Tensor, z: Tensor) -> Tensor:
    """index (batch, k) as an index of `gather` along axis 1 of z (batch, n, …)."""
    return index.reshape(*index.shape, *(1,) * (z.ndim - 2)).expand(-1, -1, *z.shape[2:])
