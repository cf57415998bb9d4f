"""Synthetic views of which one knows how good they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dwcl.data.multiview import MultiView, Provenance
from dwcl.errors import SettingError

SEPARATION = 8.0
"""Distance of two cluster centres, in standard deviations, in a view of quality 1."""

PerView: TypeAlias = float | Sequence[float]


def make_multiview(
    n_samples: int = 500,
    n_clusters: int = 4,
    *,
    widths: Sequence[int] = (20, 30, 40),
    quality: PerView | None = None,
    noise: PerView = 0.2,
    imbalance: float = 0.0,
    nonlinear: PerView = 0.0,
    random_state: int | np.random.Generator | None = 0,
) -> MultiView:
    r"""Draw views of the same clusters, each with a quality and a noise of its own.

    Parameters
    ----------
    n_samples : int
        Number of samples n, at least one per cluster.
    n_clusters : int
        Number of clusters k.
    widths : sequence of int
        Number of features :math:`d_v` of each view. A view narrower than k shows only a
        projection of the clusters.
    quality : float or sequence of float, optional
        :math:`q_v \in [0, 1]`: how far the clusters of a view lie apart. A view of quality 0
        carries no information about the clusters. By default evenly falling from 1 in the first
        view to 0.2 in the last.
    noise : float or sequence of float
        :math:`\sigma_v \ge 0`: standard deviation of the noise of a feature, whose variation
        within a cluster is otherwise about 1.
    imbalance : float
        :math:`\iota \in [0, 1)`: each cluster has :math:`1 - \iota` times the samples of the one
        before it, up to rounding and at least one.
    nonlinear : float or sequence of float
        :math:`\beta_v \in [0, 1]`: how far the map of a view is from a linear one.
    random_state : int, Generator or None
        Where all randomness comes from; None takes fresh entropy.

    Returns
    -------
    MultiView
        Views ``view1``, ``view2``, … with the clusters as labels. The lines of
        ``provenance.layout`` say how far the clusters lie apart in each view.

    Notes
    -----
    The clusters are equally far from each other: their centres are the corners of a regular
    simplex, :math:`\mu_c = e_c / \sqrt 2 \in \mathbb R^k`, the same in all views. Sample i of
    cluster :math:`y_i` has in view v the latent position

    .. math:: z_{vi} = \Delta\, q_v\, \mu_{y_i} + u_{vi}, \qquad u_{vi} \sim N(0, I_k),

    with :math:`\Delta` = 8, and the features

    .. math::

        t_{vi} &= \sqrt{d_v / k}\; Q_v z_{vi}, \\
        x_{vi} &= (1 - \beta_v)\, t_{vi} + \beta_v \sqrt 2 \sin(t_{vi} + \varphi_v)
                  + \sigma_v \eta_{vi}, \qquad \eta_{vi} \sim N(0, I_{d_v}),

    where :math:`Q_v` is a random :math:`d_v \times k` matrix with orthonormal columns (rows, where
    :math:`d_v < k`) and :math:`\varphi_v` holds random phases. Given the clusters, the views are
    independent: what they share is the clusters and nothing else.

    For :math:`\beta_v = 0` and :math:`d_v \ge k` two cluster centres are
    :math:`\Delta q_v / \sqrt{1 + \sigma_v^2 k / d_v}` standard deviations apart
    (:func:`separations`); the best view is the one where they are farthest apart
    (:func:`best_view`). Each view has a random stream of its own, so a change of one view leaves
    the others as they are.
    """
    v = len(widths)
    _check_counts(n_samples, n_clusters, widths)
    qualities, noises = _qualities(quality, v), _per_view("noise", noise, v)
    betas = _per_view("nonlinear", nonlinear, v, upper=1.0)
    rng = np.random.default_rng(random_state)
    labels = np.repeat(
        np.arange(n_clusters), cluster_sizes(n_samples, n_clusters, imbalance=imbalance)
    )
    labels = rng.permutation(labels)
    views = {
        f"view{i + 1}": _draw_view(stream, labels, n_clusters, d, q, s, b)
        for i, (stream, d, q, s, b) in enumerate(
            zip(rng.spawn(v), widths, qualities, noises, betas, strict=True)
        )
    }
    apart = separations(n_clusters, widths=widths, quality=qualities, noise=noises)
    layout = tuple(
        f"{name}: {d} features, clusters {distance:.3g} standard deviations apart"
        for (name, distance), d in zip(apart.items(), widths, strict=True)
    )
    return MultiView(
        views=views, labels=labels, provenance=Provenance(source="synthetic", layout=layout)
    )


def drop_views(
    data: MultiView, rate: float, random_state: int | np.random.Generator | None = 0
) -> MultiView:
    r"""Take views away from a part of the samples, at random; each keeps one view at least.

    Parameters
    ----------
    data : MultiView
        Two views or more; samples that lack some already are taken as whole ones.
    rate : float
        :math:`\rho \in [0, 1]`: the part of the samples that become incomplete, rounded down.
    random_state : int, Generator or None
        Where all randomness comes from; None takes fresh entropy.

    Returns
    -------
    MultiView
        The same samples, with rows of NaN where a view was taken away.

    Notes
    -----
    An incomplete sample draws a number for each view and one threshold, all evenly from [0, 1],
    and keeps the views whose numbers are not below the threshold. It draws again until it keeps
    some views and loses some; of two views, it keeps either.
    """
    if not 0 <= rate <= 1:
        raise SettingError(f"The rate is {rate}; a number from 0 to 1 is expected.")
    if data.n_views < 2 and rate > 0:
        raise SettingError(
            "These data have one view, and every sample keeps one at least; there is none to drop."
        )
    rng = np.random.default_rng(random_state)
    n, v = data.n_samples, data.n_views
    observed = np.ones((n, v), dtype=np.bool_)
    # What 0.29 · 100 falls short of 29 by is no sample.
    pending = rng.permutation(n)[: int(np.floor(n * rate + 1e-9))]
    while len(pending):
        kept = rng.random((len(pending), v)) >= rng.random((len(pending), 1))
        observed[pending] = kept
        pending = pending[kept.all(axis=1) | ~kept.any(axis=1)]
    whole = (data.views, data.sample_ids, data.labels, data.columns, data.provenance)
    return MultiView(*whole, observed=observed)


def separations(
    n_clusters: int,
    *,
    widths: Sequence[int] = (20, 30, 40),
    quality: PerView | None = None,
    noise: PerView = 0.2,
) -> dict[str, float]:
    """Return, by view, the distance of cluster centres in standard deviations.

    Exact for linear views at least as wide as the number of clusters (Mahalanobis distance); the
    arguments are those of :func:`make_multiview`.
    """
    v = len(widths)
    q, sigma = np.array(_qualities(quality, v)), np.array(_per_view("noise", noise, v))
    apart = SEPARATION * q / np.sqrt(1 + sigma**2 * n_clusters / np.array(widths))
    return {f"view{i}": float(distance) for i, distance in enumerate(apart, 1)}


def best_view(
    n_clusters: int,
    *,
    widths: Sequence[int] = (20, 30, 40),
    quality: PerView | None = None,
    noise: PerView = 0.2,
) -> str:
    """Return the name of the view with the greatest separation, the first of equals."""
    apart = separations(n_clusters, widths=widths, quality=quality, noise=noise)
    return max(apart, key=apart.__getitem__)


def cluster_sizes(n_samples: int, n_clusters: int, *, imbalance: float = 0.0) -> NDArray[np.int64]:
    """Share n samples among k clusters, each `1 − imbalance` times the one before, at least one.

    Every cluster gets its one sample first; the rest is shared by the largest remainders.
    """
    if not 0 <= imbalance < 1:
        raise SettingError(f"The imbalance is {imbalance}; a number from 0 to below 1 is expected.")
    weights = (1.0 - imbalance) ** np.arange(n_clusters)
    quota = np.maximum(weights / weights.sum() * n_samples - 1, 0.0)
    quota *= (n_samples - n_clusters) / max(quota.sum(), 1.0)
    sizes: NDArray[np.int64] = np.floor(quota).astype(np.int64)
    order = np.argsort(sizes - quota, kind="stable")  # largest remainder first
    sizes[order[: n_samples - n_clusters - sizes.sum()]] += 1
    sizes += 1
    return sizes


def _draw_view(
    rng: np.random.Generator,
    labels: NDArray[np.int64],
    k: int,
    d: int,
    quality: float,
    noise: float,
    nonlinear: float,
) -> NDArray[np.float64]:
    centres = np.eye(k) / np.sqrt(2)
    z = SEPARATION * quality * centres[labels] + rng.standard_normal((len(labels), k))  # (n, k)
    basis, _ = np.linalg.qr(rng.standard_normal((max(d, k), min(d, k))))
    Q = basis if d >= k else basis.T  # (d, k)
    phases = rng.uniform(0, 2 * np.pi, d)
    eta = rng.standard_normal((len(labels), d))
    t = np.sqrt(d / k) * z @ Q.T  # (n, d)
    x = (1 - nonlinear) * t + nonlinear * np.sqrt(2) * np.sin(t + phases) + noise * eta
    return np.asarray(x, dtype=np.float64)


def _check_counts(n_samples: int, n_clusters: int, widths: Sequence[int]) -> None:
    if n_clusters < 1 or n_samples < n_clusters:
        raise SettingError(
            f"{n_samples} samples in {n_clusters} clusters were asked for; at least one cluster "
            "and one sample per cluster are needed."
        )
    if not len(widths) or min(widths) < 1:
        raise SettingError(
            f"The widths are {tuple(widths)}; one positive number of features per view is expected."
        )


def _qualities(quality: PerView | None, v: int) -> list[float]:
    falling = np.linspace(1.0, 0.2, v).tolist()
    return _per_view("quality", falling if quality is None else quality, v, upper=1.0)


def _per_view(what: str, value: PerView, v: int, upper: float = np.inf) -> list[float]:
    """Spread one number over the views, or check that there is one for each."""
    values = np.asarray(value, dtype=np.float64)
    if values.ndim == 0:
        values = np.full(v, values)
    if values.shape != (v,):
        raise SettingError(
            f"{values.size} values of {what} came for {v} views; give one for all or one per view."
        )
    if not (np.all(values >= 0) and np.all(values <= upper) and np.all(np.isfinite(values))):
        span = "from 0 upwards" if np.isinf(upper) else f"from 0 to {upper:g}"
        raise SettingError(f"The {what} is {value}; numbers {span} are expected.")
    return [float(x) for x in values]
