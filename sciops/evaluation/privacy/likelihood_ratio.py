"""Attacks that compare a score with what shadow models give the same record."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

Attack = Literal["online", "offline", "global", "relative", "relative_online"]


def shadow_masks(models: int, records: int, *, coins: bool = False, seed: int = 0) -> np.ndarray:
    """(models, records) True where a record is a member: each model trains on a random half.

    Models come in pairs that split the records, so that every record is in half of them.

    Parameters
    ----------
    models, records : even numbers
    coins : each record of a model by a coin of its own, as `one_training_epsilon` assumes, instead of exact halves
    seed : of the draws

    Raises
    ------
    ValueError
        For odd numbers.
    """
    if models < 2 or models % 2 or records < 2 or records % 2:
        raise ValueError(f"models={models}, records={records}: expected even numbers of at least 2")
    rng = np.random.default_rng(seed)
    masks = np.zeros((models, records), dtype=bool)
    for pair in range(models // 2):
        if coins:
            masks[2 * pair] = rng.random(records) < 0.5
        else:
            masks[2 * pair, rng.permutation(records)[: records // 2]] = True
        masks[2 * pair + 1] = ~masks[2 * pair]
    return masks


def membership_scores(
    scores: Any, member: Any, *, attack: Attack = "online", per_record_variance: bool | None = None
) -> np.ndarray:
    """Scores of every record under every model, calibrated by the other models: each is the target once.

    With μ_in and μ_out the means of a record's scores over the other models that saw it and did not::

        online    ln N(φ; μ_in, σ_in²) − ln N(φ; μ_out, σ_out²)
        offline   Φ((φ − μ_out) / σ_out)
        relative  share of other records z' with φ(z) − μ_out(z) ≥ φ(z') − μ_out(z')
        relative_online   the same with (μ_in + μ_out)/2 for μ_out
        global    φ itself: one threshold for all records, which takes easy records for members

    Parameters
    ----------
    scores : (models, records) φ, near normal for each record: a logit, a log loss, a log distance; large for members
    member : (models, records) booleans
    attack : {"online", "offline", "relative", "relative_online", "global"}
    per_record_variance : by default only from 64 models on; else σ_in and σ_out are pooled over records

    Returns
    -------
    (models, records) float, large where membership is believed

    Raises
    ------
    ValueError
        Shapes differ, a score is not finite, or a record has fewer than two other models of a kind.

    Notes
    -----
    A model whose training set is the complement of the target's, as in `shadow_masks`, is left out: it saw a record
    exactly where the target did not, so that its own offset would enter μ_out of members alone.

    With variances pooled over records, "relative" orders the records of one model as "offline" does.

    References
    ----------
    Carlini et al., Membership inference attacks from first principles, arXiv:2112.03570; Zarifzadeh et al.,
    Low-cost high-power membership inference attacks (2024), whose ratio "relative" simplifies.
    """
    phi, seen = np.asarray(scores, dtype=float), np.asarray(member, dtype=bool)
    if phi.ndim != 2 or phi.shape != seen.shape:
        raise ValueError(f"scores of shape {phi.shape}, member of shape {seen.shape}: expected equal (models, records)")
    if not np.isfinite(phi).all():
        raise ValueError(f"scores: {int((~np.isfinite(phi)).sum())} of {phi.size} are not finite")
    if attack == "global":
        return phi.copy()
    if attack not in ("online", "offline", "relative", "relative_online"):
        raise ValueError(f"attack={attack!r}: expected 'online', 'offline', 'relative', 'relative_online' or 'global'")
    models = len(phi)
    own = models >= 64 if per_record_variance is None else per_record_variance
    found = np.empty_like(phi)
    for target in range(models):
        others = (np.arange(models) != target) & (seen == seen[target]).any(axis=1)  # without its complement
        in_mean, in_std = _moments(phi[others], seen[others], own, "members")
        out_mean, out_std = _moments(phi[others], ~seen[others], own, "other records")
        value = phi[target]
        if attack == "online":
            found[target] = (
                0.5 * ((value - out_mean) / out_std) ** 2
                - 0.5 * ((value - in_mean) / in_std) ** 2
                + np.log(out_std / in_std)
            )
        elif attack == "offline":
            found[target] = (value - out_mean) / out_std  # Φ of it keeps the order
        else:
            excess = value - (out_mean if attack == "relative" else 0.5 * (in_mean + out_mean))
            found[target] = np.searchsorted(np.sort(excess), excess, side="right") / len(excess)
    return found


def bootstrap_area(
    scores: Any, member: Any, *, draws: int = 500, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Interval of the mean AUC over models, with models and records drawn again: records of one model depend on it.

    Parameters
    ----------
    scores, member : (models, records), as `membership_scores` returns them; or (pools, models, records), of which the
        mean over pools is taken, with models and records drawn again within each
    draws, level, seed : of the resamples

    Raises
    ------
    ValueError
        Shapes differ, or have another number of axes.
    """
    phi, seen = np.asarray(scores, dtype=float), np.asarray(member, dtype=bool)
    if phi.shape != seen.shape or phi.ndim not in (2, 3):
        raise ValueError(
            f"scores of shape {phi.shape}, member of shape {seen.shape}: expected equal (models, records) or "
            "(pools, models, records)"
        )
    if phi.ndim == 2:
        phi, seen = phi[None], seen[None]
    rng = np.random.default_rng(seed)
    areas = []
    for _ in range(draws):
        each = []
        for one, kept in zip(phi, seen):
            columns = rng.integers(0, one.shape[1], one.shape[1])
            rows = rng.integers(0, len(one), len(one))[:, None]
            each.append(target_areas(one[rows, columns], kept[rows, columns]))
        areas.append(np.nanmean(np.concatenate(each)))
    low, high = np.quantile(areas, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def target_areas(scores: Any, member: Any) -> np.ndarray:
    """AUC of every model, from its own records: scores, member (…, records) → (…,); NaN without members or others."""
    phi, seen = np.asarray(scores, dtype=float), np.asarray(member, dtype=bool)
    if phi.shape != seen.shape or not phi.ndim:
        raise ValueError(f"scores of shape {phi.shape}, member of shape {seen.shape}: expected equal (…, records)")
    count, records = seen.sum(-1), phi.shape[-1]
    order = phi.argsort(axis=-1)
    rising = np.take_along_axis(phi, order, -1)
    # places of the first and the last of each run of equal scores, whose mean is the rank of all of them
    place, steps = np.arange(records), np.diff(rising, axis=-1) != 0
    edge = np.ones((*phi.shape[:-1], 1), dtype=bool)
    first = np.maximum.accumulate(np.where(np.concatenate([edge, steps], -1), place, 0), axis=-1)
    ends = np.where(np.concatenate([steps, edge], -1), place, records)
    last = np.minimum.accumulate(ends[..., ::-1], axis=-1)[..., ::-1]
    ranks = np.where(np.take_along_axis(seen, order, -1), 1 + 0.5 * (first + last), 0.0).sum(-1)
    pairs = count * (records - count)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(pairs > 0, (ranks - count * (count + 1) / 2) / pairs, np.nan)


def _moments(phi: np.ndarray, chosen: np.ndarray, own: bool, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """(records,) mean and standard deviation over the chosen models of every record."""
    count = chosen.sum(axis=0)
    if count.min() < 2:
        raise ValueError(
            f"a record has {count.min()} other models with it among {kind}: expected at least two; train more"
        )
    mean = np.where(chosen, phi, 0.0).sum(axis=0) / count
    squares = np.where(chosen, (phi - mean) ** 2, 0.0).sum(axis=0)
    variance = squares / (count - 1) if own else np.full(phi.shape[1], squares.sum() / (count - 1).sum())
    return mean, np.sqrt(np.maximum(variance, 1e-300))
