"""Which clusters of two clusterings belong together: names of clusters mean nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from dwcl.errors import DataError

MOST_CELLS = 10**8
"""Groups of one labelling times groups of the other that are still counted: 800 MB."""


def contingency(labels_a: ArrayLike, labels_b: ArrayLike) -> NDArray[np.int64]:
    """Count the samples of each group of a (rows) in each group of b (columns).

    The groups stand in the sorted order of their names, which may be of any type.
    """
    codes_a, codes_b = as_codes(labels_a), as_codes(labels_b)
    if codes_a.shape != codes_b.shape:
        raise DataError(
            f"One labelling has {len(codes_a)} labels, the other {len(codes_b)}; "
            "labels of the same samples in the same order are expected."
        )
    shape = (int(codes_a.max()) + 1, int(codes_b.max()) + 1)
    if shape[0] * shape[1] > MOST_CELLS:
        raise DataError(
            f"The labels have {shape[0]} and {shape[1]} different values; classes or clusters "
            "that many samples share are expected. Are they measurements, or names of samples?"
        )
    cells = np.ravel_multi_index((codes_a, codes_b), shape)
    return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)


def as_codes(labels: ArrayLike) -> NDArray[np.int64]:
    """Replace labels of any type by their positions (n) among the sorted different ones."""
    return _names_and_codes(labels)[1]


def match_labels(reference: ArrayLike, other: ArrayLike) -> NDArray[np.int64]:
    """Rename the clusters of another clustering so that most samples keep those of the reference.

    Parameters
    ----------
    reference, other : array-like or Tensor of n, whole numbers
        Two clusterings of the same samples.

    Returns
    -------
    ndarray of n
        The other clustering under the names of the reference, by the one-to-one assignment with
        the greatest overlap. Clusters that are left over get the next free numbers.
    """
    table = contingency(reference, other)
    names, _ = _names_and_codes(reference)
    others, codes = _names_and_codes(other)
    if names.dtype.kind not in "iub" or others.dtype.kind not in "iub":
        raise DataError(
            f"The labels have types {names.dtype} and {others.dtype}; whole numbers are expected."
        )
    rows, columns = linear_sum_assignment(table, maximize=True)
    renamed = np.full(table.shape[1], -1, dtype=np.int64)
    renamed[columns] = names[rows]
    left_over = np.setdiff1d(np.arange(table.shape[1]), columns)
    renamed[left_over] = int(names.max()) + 1 + np.arange(len(left_over))
    return renamed[codes]


def align_labels(reference: ArrayLike, other: ArrayLike, n_clusters: int) -> NDArray[np.int64]:
    """Rename the clusters of another clustering by a permutation of 0 … k − 1.

    Like :func:`match_labels`, but for two clusterings into the same k places, as the outputs of a
    network are: a cluster with no counterpart gets the name of a place that is free, so that a
    place that is empty in the reference can be filled again.

    Parameters
    ----------
    reference, other : array-like or Tensor of n, whole numbers from 0 to k − 1
        Two clusterings of the same samples.
    n_clusters : int
        k. Some of the clusters may be empty in either.

    Returns
    -------
    ndarray of n
        The other clustering under its new names, by the permutation with the greatest overlap.
    """
    given = [_detached(labels) for labels in (reference, other)]
    if given[0].shape != given[1].shape or given[0].ndim != 1:
        raise DataError(
            f"The labels have shapes {given[0].shape} and {given[1].shape}; "
            "labels of the same samples in the same order are expected, shape (n,) each."
        )
    for labels in given:
        whole = labels.dtype.kind in "iu"
        if not whole or (labels.size and not 0 <= labels.min() <= labels.max() < n_clusters):
            raise DataError(
                f"The labels are of type {labels.dtype}, from {labels.min(initial=0)} to "
                f"{labels.max(initial=0)}; whole numbers from 0 to {n_clusters - 1} are expected."
            )
    one, another = (labels.astype(np.int64) for labels in given)
    cells = one * n_clusters + another
    table = np.bincount(cells, minlength=n_clusters**2).reshape(n_clusters, n_clusters)
    rows, columns = linear_sum_assignment(table, maximize=True)
    names = np.empty(n_clusters, dtype=np.int64)
    names[columns] = rows
    return names[another]


def _detached(labels: ArrayLike) -> NDArray[np.generic]:
    detach = getattr(labels, "detach", None)
    return np.asarray(labels if detach is None else detach().cpu())


def _names_and_codes(labels: ArrayLike) -> tuple[NDArray[np.generic], NDArray[np.int64]]:
    """Return the different labels, sorted, and the position among them of each sample."""
    values = _detached(labels)
    if values.ndim != 1 or values.size == 0:
        raise DataError(
            f"The labels have shape {values.shape}; one label per sample is expected, shape (n,)."
        )
    missing = values.dtype.kind == "f" and bool(np.isnan(values).any())
    try:
        names, codes = np.unique(values, return_inverse=True)
    except TypeError:
        missing = True
    if missing:
        raise DataError(
            "Some labels are missing (NaN or None) or of a type that cannot be compared with the "
            "others; one name or number for each sample is expected."
        )
    return names, codes.astype(np.int64)
