"""Structured attention from queries and keys: tiles in full, what is farther by one summary a block."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from sciops.mixers.resolvent.block_solve import Routes, summaries


class Blocks(NamedTuple):
    """Tokens in K blocks of m, (batch, heads, K, m, …).

    q, k : (…, d). gate : (…,) before the sigmoid, of level 1. score : (…,) of the token in the summary of its block,
    before the softmax. there : (batch or 1, 1, K, m), False where there is no token; None where all are
    """

    q: Tensor
    k: Tensor
    gate: Tensor
    score: Tensor
    there: Tensor | None


class Before(NamedTuple):
    """What decoding has seen before these blocks.

    keys, summaries : (batch, heads, H, d) of finished blocks, `finished` (batch,) of them in each sequence
    first : (batch,) number of the first of these blocks in its sequence
    known : (batch, 1, K, m), tokens whose x is known
    query : (batch, heads, d), mean query of the block before the first that is not finished
    """

    keys: Tensor
    summaries: Tensor
    finished: Tensor
    first: Tensor
    known: Tensor
    query: Tensor


def routes_of(
    blocks: Blocks,
    *,
    level: int,
    causal: bool,
    overlap: bool = False,
    reduced: bool = True,
    query: str = "first",
    slopes: Tensor | None = None,
    before: Before | None = None,
) -> tuple[Routes, Tensor, Tensor | None]:
    """Routes (`_block_solve`), the blocks' keys (batch, heads, K, d), and the part of finished blocks before these.

    level 1 : D and N are (1−ρ)·softmax over the own block (and the one before), C the softmax of the block's query over
        the keys of blocks; level 2 : one softmax over own tokens and blocks, log(tokens) added for a block
    before : for causal blocks that all tokens of are there
    reduced : whether blocks are seen at all; otherwise `far` and `lift` are 0
    causal : own tokens up to i, blocks before those seen in full; otherwise all of the block, and all other blocks
    query : of a block, "first" of its tokens, "prev" the mean of the block before, "mean" its own (sees later tokens)

    The last return value is what finished blocks give, C s (batch, heads, K, d) or E s (batch, heads, K, m, d); None
    without `before`.
    """
    q, k, there = blocks.q * blocks.q.shape[-1] ** -0.5, blocks.k, blocks.there
    count, m = k.shape[2:4]
    weights = _within(blocks.score, there)
    keys = summaries(weights, k)
    near = _local_scores(q, k, there, causal=causal, overlap=overlap, slopes=slopes)
    seen = _blocks_seen(there, count, causal=causal, overlap=overlap, before=before, device=k.device)
    seen = seen if reduced else torch.zeros_like(seen)
    of_far = keys if before is None else torch.cat([before.keys.to(k.dtype), keys], 2)
    earlier = of_far.shape[2] - count
    apart = _blocks_apart(count, before, k.device)
    if level == 1:
        asks = _block_queries(q, there, query, before)
        scores = asks @ of_far.mT
        if slopes is not None:
            scores = scores - slopes.to(scores.dtype) * (m * apart.abs())
        some = seen.any(-1, keepdim=True)
        far = scores.masked_fill(~seen, torch.finfo(scores.dtype).min).softmax(-1) * some
        lift = blocks.gate.sigmoid() * some
        near = (1 - lift).unsqueeze(-1) * near.softmax(-1)
    else:
        scores = (q.flatten(2, 3) @ of_far.mT).unflatten(2, (count, m))
        if slopes is not None:
            own = torch.arange(m, device=k.device) - (m - 1) / 2
            scores = scores - slopes.unsqueeze(-1).to(scores.dtype) * (m * apart.unsqueeze(-2) + own[:, None]).abs()
        tokens = torch.tensor(m) if there is None else there.sum(-1).clamp_min(1)[:, :, None, None]
        scores = scores + tokens.to(scores).log()
        scores = scores.masked_fill(~seen.unsqueeze(-2), torch.finfo(scores.dtype).min)
        joint = torch.cat([near, scores], -1).softmax(-1)
        near, far = joint.split([near.shape[-1], scores.shape[-1]], -1)
        lift = None
    alone = before.known if before is not None else None if there is None else ~there
    if alone is not None:  # X = R there
        near = near.masked_fill(alone.unsqueeze(-1), 0)
        if level == 1:
            lift = lift.masked_fill(alone, 0)
        else:
            far = far.masked_fill(alone.unsqueeze(-1), 0)
    tiles, beside = (near[..., m:], near[..., :m]) if overlap else (near, None)
    past = None
    if before is not None:
        of_past, far = far[..., :earlier], far[..., earlier:]
        past = (of_past.flatten(2, -2) @ before.summaries.to(k.dtype)).unflatten(2, of_past.shape[2:-1])
    return Routes(tiles, beside, far, lift, weights), keys, past


def _within(score: Tensor, there: Tensor | None) -> Tensor:
    """Softmax of the scores over the tokens of a block, 0 for all where there are none."""
    if there is None:
        return score.softmax(-1)
    return score.masked_fill(~there, torch.finfo(score.dtype).min).softmax(-1) * there


def _local_scores(
    q: Tensor, k: Tensor, there: Tensor | None, *, causal: bool, overlap: bool, slopes: Tensor | None
) -> Tensor:
    """(batch, heads, K, m, m), with `overlap` (…, 2m), those of the block before in front."""
    m, lowest = k.shape[3], torch.finfo(k.dtype).min
    at = torch.arange(m, device=k.device)
    apart = at[:, None] - at
    seen = apart >= 0 if causal else torch.ones_like(apart, dtype=torch.bool)
    if there is not None:
        seen = seen & there.unsqueeze(-2)
    if overlap:
        k = torch.cat([_moved(k), k], 3)
        apart = torch.cat([apart + m, apart], 1)
        before = torch.ones_like(k[:1, :1, :, :m, 0], dtype=torch.bool) if there is None else there
        before = _moved(before.unsqueeze(-1)).squeeze(-1).unsqueeze(-2)
        shape = torch.broadcast_shapes(before.shape, (m, m), seen.shape[:-2] + (1, 1))
        seen = torch.cat([before.expand(shape), seen.expand(shape)], -1)
    scores = q @ k.mT
    if slopes is not None:
        scores = scores - slopes.unsqueeze(-1).to(scores.dtype) * apart.abs()
    return scores.masked_fill(~seen, lowest)


def _moved(z: Tensor) -> Tensor:
    """The block before in the place of each block (batch, heads, K, m, …), zeros before the first."""
    return torch.cat([torch.zeros_like(z[:, :, :1]), z[:, :, :-1]], 2)


def _blocks_apart(count: int, before: Before | None, device: torch.device) -> Tensor:
    """b − c of blocks b and of all c that there are, (K, K) or (batch, 1, K, H + K)."""
    own = torch.arange(count, device=device)
    apart = own[:, None] - own
    if before is None:
        return apart
    here = before.first[:, None, None] + own[:, None]
    past = here - torch.arange(before.keys.shape[2], device=device)
    return torch.cat([past, apart.expand(past.shape[0], -1, -1)], -1).unsqueeze(1)


def _blocks_seen(
    there: Tensor | None, count: int, *, causal: bool, overlap: bool, before: Before | None, device: torch.device
) -> Tensor:
    """Whether the tokens of block b see the summary of block c, of the shape of `_blocks_apart`."""
    own = torch.arange(count, device=device)
    seen = own[None, :] < own[:, None] - int(overlap) if causal else own[None, :] != own[:, None]
    if there is not None:
        seen = seen & there.any(-1).unsqueeze(-2)
    if before is None:
        return seen
    seen = (seen & (before.first[:, None] + own >= before.finished[:, None])[:, None, :]).expand(-1, count, -1)
    past = torch.arange(before.keys.shape[2], device=device)
    here = before.first[:, None] + own - int(overlap)
    of_past = past < torch.minimum(here, before.finished[:, None]).unsqueeze(-1)
    return torch.cat([of_past, seen], -1).unsqueeze(1)


def _block_queries(q: Tensor, there: Tensor | None, query: str, before: Before | None) -> Tensor:
    """(batch, heads, K, d)."""
    if query == "first":
        if there is None:
            return q[:, :, :, 0]
        first = there.to(torch.uint8).argmax(-1)[..., None, None].expand(q.shape[0], q.shape[1], -1, -1, q.shape[-1])
        return q.gather(3, first).squeeze(3)
    size = q.shape[3] if there is None else there.sum(-1).clamp_min(1).unsqueeze(-1)
    mean = (q if there is None else q * there.unsqueeze(-1)).sum(3) / size
    if query == "mean":
        return mean
    asks = torch.cat([torch.zeros_like(mean[:, :, :1]), mean[:, :, :-1]], 2)
    if before is None:
        return asks
    at = (before.finished - before.first)[:, None, None, None].expand(-1, q.shape[1], 1, q.shape[-1])
    kept = before.query.to(q.dtype).unsqueeze(2) * q.shape[-1] ** -0.5
    return asks.scatter(2, at, kept)
