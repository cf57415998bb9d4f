"""The linear probe: how well a linear classifier reads the classes off an embedding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import accuracy_score, f1_score, recall_score
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from dwcl.errors import DataError


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

    Splits keep the shares of the classes where every class has at least two samples.
    """
    x, y = np.asarray(features, dtype=np.float64), np.asarray(labels)
    if x.ndim != 2 or y.shape != (len(x),):
        raise DataError(
            f"Features have shape {x.shape} and labels {y.shape}; n × d and n are expected."
        )
    classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise DataError(f"A probe needs at least two classes; the labels have {len(classes)}.")
    n_test = len(y) - round(train_fraction * len(y))
    stratified = counts.min() >= 2 and min(n_test, len(y) - n_test) >= len(classes)
    scores = []
    for seed in np.random.SeedSequence(random_state).generate_state(repeats).tolist():
        train, test = train_test_split(
            np.arange(len(y)),
            test_size=n_test,
            random_state=seed,
            stratify=codes if stratified else None,
        )
        scores.append(_one_split(x, codes, train, test))
    acc, recall, f1 = np.asarray(scores).T
    return ProbeResult(acc, recall, f1)


def _one_split(
    x: NDArray[np.float64],
    y: NDArray[np.int64],
    train: NDArray[np.int64],
    test: NDArray[np.int64],
) -> tuple[float, float, float]:
    found = SVC(kernel="linear", C=1.0).fit(x[train], y[train]).predict(x[test])
    means = {"average": "macro", "zero_division": 0.0}
    return (
        float(accuracy_score(y[test], found)),
        float(recall_score(y[test], found, **means)),
        float(f1_score(y[test], found, **means)),
    )
