"""Whether methods differ: ranks, tests over data sets, and intervals by resampling."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dwcl.errors import DataError
from dwcl.experiments.summary import SCORES, Summary

RESAMPLES = 10_000
LEVEL = 0.05


@dataclass(frozen=True)
class Difference:
    """Two methods, compared over the data sets that both have.

    Attributes
    ----------
    first, second : str
    mean : float
        Mean difference of the two over data sets, first minus second.
    low, high : float
        Interval for it at 95 %, by resampling data sets, and seeds within them.
    p, corrected : float
        Wilcoxon's signed-rank test over the data sets, as it is and by Holm for all pairs.
    """

    first: str
    second: str
    mean: float
    low: float
    high: float
    p: float
    corrected: float


@dataclass(frozen=True)
class Comparison:
    """Methods compared over data sets.

    Attributes
    ----------
    labels : tuple of str
        Best mean rank first.
    data : tuple of str
        The data sets on which all methods have a mean; no other has a part.
    ranks : dict of str to float
        Mean rank, 1 the best; equals share.
    friedman, p : float
        Friedman's statistic and its p; NaN for fewer than three methods or two data sets.
    critical_difference : float
        Of mean ranks, by Nemenyi at 5 %; NaN where there is none.
    pairs : tuple of Difference
    """

    labels: tuple[str, ...]
    data: tuple[str, ...]
    ranks: Mapping[str, float]
    friedman: float
    p: float
    critical_difference: float
    pairs: tuple[Difference, ...]


def compare(summary: Summary, *, seed: int = 0) -> Comparison:
    """Compare all methods of a summary.

    Parameters
    ----------
    summary : Summary
        Of a score; or of time or memory, of which less is better.
    seed : int
        For the resampling.
    """
    data = summary.complete()
    if len(summary.labels) < 2 or not data:
        raise DataError(
            f"There are {len(summary.labels)} methods and {len(data)} data sets on which each of "
            "them has a result; at least two methods and one data set are expected."
        )
    sign = 1.0 if summary.metric in SCORES else -1.0
    means = np.array(
        [[summary.cells[name, label].mean for label in summary.labels] for name in data],
        dtype=np.float64,
    )
    ranks = mean_ranks(sign * means)
    statistic, p = friedman(sign * means)
    order = np.argsort(ranks, kind="stable")
    return Comparison(
        labels=tuple(summary.labels[i] for i in order),
        data=tuple(data),
        ranks={summary.labels[i]: float(ranks[i]) for i in order},
        friedman=statistic,
        p=p,
        critical_difference=critical_difference(len(summary.labels), len(data)),
        pairs=_differences(summary, data, [summary.labels[i] for i in order], seed),
    )


def mean_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean rank (k) of methods over data sets (N × k), the greatest value first."""
    found: NDArray[np.float64] = stats.rankdata(-values, axis=1).mean(axis=0)
    return found


def friedman(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return Friedman's statistic and p over data sets (N × k); NaN where it says nothing."""
    if values.shape[1] < 3 or values.shape[0] < 2 or not np.ptp(values, axis=1).any():
        return float("nan"), float("nan")
    found = stats.friedmanchisquare(*values.T)
    return float(found.statistic), float(found.pvalue)


def critical_difference(n_methods: int, n_data: int, level: float = LEVEL) -> float:
    """Return by how much two mean ranks must differ, of k methods over N data sets (Nemenyi)."""
    if n_methods < 2 or n_data < 2:
        return float("nan")
    quantile = stats.studentized_range.ppf(1 - level, n_methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(n_methods * (n_methods + 1) / (6 * n_data)))


def holm(ps: Sequence[float]) -> list[float]:
    """Correct p values for their number, step by step from the smallest; NaN stays."""
    known = [i for i, p in enumerate(ps) if not np.isnan(p)]
    corrected, least = list(ps), 0.0
    for position, i in enumerate(sorted(known, key=lambda i: ps[i])):
        least = max(least, min(1.0, (len(known) - position) * ps[i]))
        corrected[i] = least
    return corrected


def signed_rank(differences: NDArray[np.float64]) -> float:
    """Return the p of Wilcoxon's test that differences (N) lie around zero, both sides."""
    if len(differences) < 2:
        return float("nan")
    if not differences.any():
        return 1.0
    return float(stats.wilcoxon(differences, zero_method="zsplit").pvalue)


def _differences(
    summary: Summary, data: Sequence[str], labels: Sequence[str], seed: int
) -> tuple[Difference, ...]:
    found, ps = [], []
    for first, second in itertools.combinations(labels, 2):
        one, other = (
            [np.array(list(summary.cells[name, label].values.values())) for name in data]
            for label in (first, second)
        )
        by_data = np.array([a.mean() - b.mean() for a, b in zip(one, other, strict=True)])
        ps.append(signed_rank(by_data))
        found.append((first, second, float(by_data.mean()), *resampled(one, other, seed)))
    return tuple(
        Difference(*rest, p=p, corrected=corrected)
        for rest, p, corrected in zip(found, ps, holm(ps), strict=True)
    )


def resampled(
    one: Sequence[NDArray[np.float64]], other: Sequence[NDArray[np.float64]], seed: int
) -> tuple[float, float]:
    """Interval at 95 % for the mean difference of two methods over data sets.

    Parameters
    ----------
    one, other : sequence of ndarray
        Values of the two methods over the seeds, data set by data set.
    seed : int
        For the draws: of data sets, and of seeds within each, with repetition.
    """
    rng = np.random.default_rng(seed)
    n = len(one)
    # Means of resampled seeds for every data set, of which each draw picks n with repetition.
    by_data = np.stack(
        [
            _means_of_draws(a, rng) - _means_of_draws(b, rng)
            for a, b in zip(one, other, strict=True)
        ],
        axis=1,
    )
    picked = rng.integers(n, size=(RESAMPLES, n))
    means = np.take_along_axis(by_data, picked, axis=1).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def _means_of_draws(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    picked = rng.integers(len(values), size=(RESAMPLES, len(values)))
    found: NDArray[np.float64] = values[picked].mean(axis=1)
    return found
