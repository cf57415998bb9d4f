"""Scores of clusters against known classes. Names of clusters and classes never matter."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from dwcl.clustering.matching import as_codes, contingency
from dwcl.errors import DataError


def score(labels_true: ArrayLike, labels_pred: ArrayLike) -> dict[str, float]:
    """Return all scores by their short names: acc, nmi, ari, purity and f."""
    truth, found = _as_codes(labels_true, labels_pred)
    return {
        "acc": accuracy(truth, found),
        "nmi": nmi(truth, found),
        "ari": ari(truth, found),
        "purity": purity(truth, found),
        "f": pairwise_f(truth, found),
    }


def accuracy(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Share of the samples that are right under the best one-to-one naming of the clusters.

    With more clusters than classes, the samples of the clusters left over count as wrong.
    """
    table = contingency(*_as_codes(labels_true, labels_pred))
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / table.sum())


def nmi(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Mutual information over the arithmetic mean of the entropies."""
    return float(normalized_mutual_info_score(*_as_codes(labels_true, labels_pred)))


def ari(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Rand index over pairs of samples, adjusted for chance."""
    return float(adjusted_rand_score(*_as_codes(labels_true, labels_pred)))


def purity(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Share of the samples that belong to the most frequent class of their cluster."""
    table = contingency(*_as_codes(labels_true, labels_pred))
    return float(table.max(axis=0).sum() / table.sum())


def pairwise_f(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """F1 score of "the two samples belong together" over all pairs of samples.

    1 if there is nothing to get wrong: neither classes nor clusters have two samples in common.
    """
    table = contingency(*_as_codes(labels_true, labels_pred))
    together = _pairs(table)
    in_class, in_cluster = _pairs(table.sum(axis=1)), _pairs(table.sum(axis=0))
    return 1.0 if in_class + in_cluster == 0 else 2 * together / (in_class + in_cluster)


def _pairs(counts: NDArray[np.int64]) -> float:
    """Count the pairs within groups of the given sizes."""
    sizes = counts.astype(np.float64)
    return float((sizes * (sizes - 1) / 2).sum())


def _as_codes(
    labels_true: ArrayLike, labels_pred: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Replace labels of any type by whole numbers from 0."""
    truth, found = np.asarray(labels_true), np.asarray(labels_pred)
    if truth.ndim != 1 or truth.shape != found.shape or not truth.size:
        raise DataError(
            f"Known classes have shape {truth.shape} and clusters {found.shape}; two vectors with "
            "one value per sample, in the same order, are expected."
        )
    return as_codes(truth), as_codes(found)
