"""The linear probe: how well a linear classifier reads the classes off an embedding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import accuracy_score, f1_score, recall_score
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from dwcl.clustering.matching import as_codes
from dwcl.errors import DataError, SettingError


@dataclass(frozen=True)
class ProbeResult:
    """Scores on the test part of each split.

    Attributes
    ----------
    acc, recall, f1 : ndarray of the number of splits
        Accuracy, and recall and F1 as means over the classes.
    """

    acc: NDArray[np.float64]
    recall: NDArray[np.float64]
    f1: NDArray[np.float64]

    def as_dict(self) -> dict[str, float]:
        """Return mean and standard deviation of each score."""
        return {
            f"{name}_{kind}": float(reduce(values))
            for name, values in (("acc", self.acc), ("recall", self.recall), ("f1", self.f1))
            for kind, reduce in (("mean", np.mean), ("std", np.std))
        }


def linear_probe(
    features: ArrayLike,
    labels: ArrayLike,
    *,
    train_fraction: float = 0.7,
    repeats: int = 10,
    random_state: int = 0,
) -> ProbeResult:
    """Train a linear support vector machine (C = 1) on random splits and test it on the rest.

    Splits keep the shares of the classes where both parts have room for every class. The sample
    of a class of its own is always trained on: in the test part it could only be missed.

    Parameters
    ----------
    features : array-like, n × d
        Embedding, or anything else that a linear classifier may read.
    labels : array-like of n
        Known classes, names or numbers.
    train_fraction : float
        Share of the samples that is trained on, between 0 and 1.
    repeats : int
        Number of splits.
    random_state : int
        Seed of all splits.
    """
    x, y = np.asarray(features, dtype=np.float64), np.asarray(labels)
    _check(x, y, train_fraction, repeats)
    codes = as_codes(y)
    counts = np.bincount(codes)
    if len(counts) < 2:
        raise DataError("A probe needs at least two classes; the labels have 1.")
    n_test = len(y) - round(train_fraction * len(y))
    if not 0 < n_test < len(y):
        raise DataError(
            f"A share of {train_fraction} of {len(y)} samples leaves a part without any; "
            "more samples, or another train_fraction, are needed."
        )
    splits = _splits(codes, counts, n_test, _seeds(random_state, repeats))
    acc, recall, f1 = np.array([_one_split(x, codes, train, test) for train, test in splits]).T
    return ProbeResult(acc, recall, f1)


def _check(
    x: NDArray[np.float64], y: NDArray[np.generic], train_fraction: float, repeats: int
) -> None:
    if x.ndim != 2 or y.shape != (len(x),):
        raise DataError(
            f"Features have shape {x.shape} and labels {y.shape}; n × d and n are expected."
        )
    if not np.isfinite(x).all():
        raise DataError("The features hold NaN or infinite values; finite numbers are expected.")
    if not 0 < train_fraction < 1:
        raise SettingError(f"train_fraction = {train_fraction}; a share between 0 and 1 is needed.")
    if repeats < 1:
        raise SettingError(f"repeats = {repeats}; at least one split is needed.")


def _seeds(random_state: int, repeats: int) -> list[int]:
    return [int(seed) for seed in np.random.SeedSequence(random_state).generate_state(repeats)]


def _splits(
    codes: NDArray[np.int64], counts: NDArray[np.int64], n_test: int, seeds: list[int]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the rows of the training part and of the test part for each seed."""
    shared = np.flatnonzero(counts[codes] >= 2)
    alone = np.flatnonzero(counts[codes] == 1)
    n_test = min(n_test, max(1, len(shared) - 1))
    n_classes = int((counts >= 2).sum())
    if not n_classes:
        raise DataError("Every sample is a class of its own; a probe needs classes of several.")
    stratified = n_classes <= min(n_test, len(shared) - n_test)
    for seed in seeds:
        train, test = train_test_split(
            shared,
            test_size=n_test,
            random_state=seed,
            stratify=codes[shared] if stratified else None,
        )
        yield np.concatenate([train, alone]), test


def _one_split(
    x: NDArray[np.float64],
    y: NDArray[np.int64],
    train: NDArray[np.int64],
    test: NDArray[np.int64],
) -> tuple[float, float, float]:
    if (y[train] == y[train[0]]).all():
        found = np.full(len(test), y[train[0]])  # all that one class can teach
    else:
        found = SVC(kernel="linear", C=1.0).fit(x[train], y[train]).predict(x[test])
    means = {"average": "macro", "zero_division": 0.0}
    return (
        float(accuracy_score(y[test], found)),
        float(recall_score(y[test], found, **means)),
        float(f1_score(y[test], found, **means)),
    )
