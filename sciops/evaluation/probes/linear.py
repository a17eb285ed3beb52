"""One linear probe for every layer, fitted alike: what can be read from hidden states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np

Probe = Literal["logistic", "discriminant"]


def probe_errors(
    train: Mapping[str, Any],
    labels: Any,
    test: Mapping[str, Any],
    test_labels: Any,
    *,
    strength: float = 1.0,
    weights: Any = None,
    probe: Probe = "logistic",
) -> dict[str, np.ndarray]:
    """Errors of a standardised linear probe of every layer, one for each test sample.

    Features are scaled by the mean and standard deviation of the training samples, so that a layer's scale does not
    change the regularisation. Class labels (integers, strings, booleans) get a logistic regression with an L2 penalty,
    or a linear discriminant, and the error 1 where the class is wrong. Real targets get a ridge regression and the
    error ‖ŷ − y‖² / mean ‖y − ȳ‖², so that predicting the mean of the training targets costs about 1.

    Parameters
    ----------
    train, test : layer → (samples, features)
    labels, test_labels : (samples,) classes, or (samples,) or (samples, outputs) floats
    strength : float
        Of the penalty: 1/C of the logistic regression, times samples in the ridge regression; over the number of
        samples it is added to the diagonal of the discriminant's covariance.
    weights : (samples,) of the training samples, such as those that balance groups
    probe : {"logistic", "discriminant"}
        Of class labels. The discriminant is the class c with the largest m_c·Σ⁻¹h − ½ m_c·Σ⁻¹m_c + ln π_c, with the
        classes' means m, shares π and the covariance Σ within classes: in closed form, a hundred times faster with
        many classes, and with ``strength=0`` unchanged by an invertible linear map of the features. It is the best
        linear probe where classes are Gaussian and scatter alike.

    Returns
    -------
    layer → (test samples,)

    Raises
    ------
    ValueError
        Layers or lengths differ, a feature is not finite, there is one class only, the probe is unknown, or a
        discriminant without penalty has a singular covariance.
    ImportError
        scikit-learn is missing (extra ``sciops[audit]``).
    """
    if probe not in get_args(Probe):
        raise ValueError(f"probe={probe!r}: expected one of {', '.join(get_args(Probe))}")
    y, y_test = np.asarray(labels), np.asarray(test_labels)
    if {*train} != {*test}:
        raise ValueError(f"layers differ: {sorted({*train} ^ {*test})[0]!r} is in one of train and test only")
    errors = {}
    for name, values in train.items():
        x, z = _features(name, values, len(y)), _features(name, test[name], len(y_test))
        center, scale = x.mean(axis=0), x.std(axis=0)
        scale = np.where(scale > 1e-12 * np.maximum(np.abs(center), 1e-300), scale, 1.0)
        x, z = (x - center) / scale, (z - center) / scale
        if np.issubdtype(y.dtype, np.floating):
            errors[name] = _ridge(x, y, z, y_test, strength, weights)
        else:
            if len(np.unique(y)) < 2:
                raise ValueError(f"labels: all training samples have the class {y[0]}; expected at least two classes")
            fitted = _logistic if probe == "logistic" else _discriminant
            errors[name] = (fitted(x, y, z, strength, weights) != y_test).astype(float)
    return errors


def shuffled(labels: Any, *, seed: int, within: Any = None) -> np.ndarray:
    """The labels in random order, for the control task: what a probe reads from these is its own capacity.

    within : (samples,) groups within which labels are exchanged
    """
    y = np.asarray(labels).copy()
    rng = np.random.default_rng(seed)
    groups = np.zeros(len(y), int) if within is None else np.unique(np.asarray(within), return_inverse=True)[1]
    for group in range(int(groups.max(initial=0)) + 1):
        members = np.flatnonzero(groups == group)
        y[members] = y[rng.permutation(members)]
    return y


def balanced_weights(groups: Any) -> np.ndarray:
    """(samples,) weights with equal sums for all groups and mean 1."""
    _, index, count = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    return len(index) / (len(count) * count[index])


def _features(name: str, values: Any, samples: int) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or len(array) != samples:
        raise ValueError(f"layer {name!r} of shape {array.shape}: expected ({samples}, features); pool positions first")
    if not np.isfinite(array).all():
        raise ValueError(f"layer {name!r}: features are not finite")
    return array


def _logistic(x: np.ndarray, y: np.ndarray, z: np.ndarray, strength: float, weights: Any) -> np.ndarray:
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise ImportError("probes need scikit-learn: pip install 'sciops[audit]'") from None
    probe = LogisticRegression(C=1.0 / strength, max_iter=2000, tol=1e-6).fit(x, y, sample_weight=weights)
    return np.asarray(probe.predict(z))


def _discriminant(x: np.ndarray, y: np.ndarray, z: np.ndarray, strength: float, weights: Any) -> np.ndarray:
    names, index = np.unique(y, return_inverse=True)
    w = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=float)
    member = np.zeros((len(names), len(x)))
    member[index, np.arange(len(x))] = w
    mass = member.sum(axis=1)
    if (mass <= 0).any():
        raise ValueError(f"weights: the class {names[mass.argmin()]} has none; expected positive weights")
    means = member @ x / mass[:, None]
    inner = (x - means[index]) * np.sqrt(w)[:, None]
    covariance = inner.T @ inner / w.sum() + strength / len(x) * np.eye(x.shape[1])
    try:
        pivots = np.diag(np.linalg.cholesky(covariance))
    except np.linalg.LinAlgError:
        pivots = np.zeros(1)
    if pivots.min() <= 1e-6 * pivots.max():
        raise ValueError(
            f"strength={strength}: the covariance of {len(x)} samples with {x.shape[1]} features is singular; pass "
            "strength=1.0"
        )
    along = np.linalg.solve(covariance, means.T).T  # Σ⁻¹ m
    score = z @ along.T - 0.5 * (along * means).sum(axis=1) + np.log(mass / mass.sum())
    return np.asarray(names[score.argmax(axis=1)])


def _ridge(
    x: np.ndarray, y: np.ndarray, z: np.ndarray, y_test: np.ndarray, strength: float, weights: Any
) -> np.ndarray:
    w = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=float)
    targets, wanted = (np.asarray(v, dtype=float).reshape(len(v), -1) for v in (y, y_test))
    center, mean = (w @ x) / w.sum(), (w @ targets) / w.sum()
    root = np.sqrt(w)[:, None]
    a, b = (x - center) * root, (targets - mean) * root
    penalty = strength * len(x) * np.eye(x.shape[1])
    beta = np.linalg.solve(a.T @ a + penalty, a.T @ b)
    scale = max(float(((targets - mean) ** 2).sum(axis=1).mean()), 1e-300)
    return (((z - center) @ beta + mean - wanted) ** 2).sum(axis=1) / scale
