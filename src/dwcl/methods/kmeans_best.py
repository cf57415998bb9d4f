r"""k-means on the best single view as it comes: what choosing a view alone is worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dwcl.methods.base import Run
from dwcl.methods.best_view import BestViewClusterer, keep_choice
from dwcl.methods.settings import AtLeastTwo, Count, Positive


class KMeansBest(BestViewClusterer):
    r"""k-means on the scaled inputs of the best view, a yardstick without networks.

    What the other views add to the best one shows beside this. Each scaled view :math:`X^v` is
    clustered by k-means by itself, and its clusters :math:`c^v` are judged by their mean silhouette

    .. math::

        SI_v = \frac1n \sum_i \frac{b_i^v - a_i^v}{\max(a_i^v, b_i^v)}, \qquad
        B = \arg\max_v SI_v,

    where :math:`a_i^v` is the mean distance of sample i to the others of its own cluster and
    :math:`b_i^v` the least mean distance to those of another one. The clusters are those of view
    B. No label has a part in the choice, which is therefore not always the view that scores best:
    a view of few features can be compact and still tell little.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters k. One is allowed, as everywhere in scikit-learn.
    scaling : str or dict, default="minmax"
        ``minmax``, ``standard``, ``row-l2``, ``none`` or ``auto``, for all views or by view.
    n_init : int, default=10
        Restarts of every k-means.
    silhouette_budget : int, default=20000
        Up to so many samples the silhouette is exact; above, it is taken on a random sample of
        this size, and the history says so.
    memory_budget : float, default=2.0
        GB that data and features may take in memory. Larger data are read by blocks and
        clustered by mini-batches.
    device : str, default="auto"
        ``auto``, ``cpu``, ``cuda``, …
    threads : int or None, default=None
        Threads of the processor; None leaves PyTorch's number.
    random_state : int, numpy RandomState or Generator, or None, default=None
        The source of all randomness.

    Attributes
    ----------
    labels_ : ndarray of n
        Cluster of each sample.
    cluster_centers_ : ndarray of k × d_B
        Centres among the scaled inputs of the best view.
    inertia_ : float
        Sum of the squared distances of the samples to their centres.
    embedding_ : ndarray of n × d_B, or None
        The scaled inputs of the best view; None where they are large for the memory budget.
    best_view_ : str
        The view with the highest mean silhouette.
    view_quality_ : dict of str to float
        Mean silhouette of each view.
    assessments_ : list of Assessment
        The one assessment of the views, with the clusters of each.
    view_names_, view_widths_ : tuple
        The views in their order.
    history_ : list of dict
        One record, of the assessment (qualities, agreements, best view).
    notes_ : list of str
        What was noticed in the data.
    n_features_in_ : int
        Number of features of all views together.

    Examples
    --------
    >>> from dwcl import make_multiview
    >>> from dwcl.methods.kmeans_best import KMeansBest
    >>> data = make_multiview(120, 3, random_state=0)
    >>> KMeansBest(3, random_state=0).fit(data).best_view_
    'view1'
    """

    method_name = "kmeans-best"

    def __init__(
        self,
        n_clusters: Count = 8,
        *,
        scaling: str | dict[str, str] = "minmax",
        n_init: Count = 10,
        silhouette_budget: AtLeastTwo = 20_000,
        memory_budget: Positive = 2.0,
        device: str = "auto",
        threads: Count | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.scaling = scaling
        self.n_init = n_init
        self.silhouette_budget = silhouette_budget
        self.memory_budget = memory_budget
        self.device = device
        self.threads = threads
        self.random_state = random_state

    def _build(
        self,
        widths: Sequence[int],  # noqa: ARG002 - nothing but the choice is kept
        generators: Sequence[torch.Generator],  # noqa: ARG002
    ) -> nn.Module:
        return keep_choice(nn.Module())

    def _total_epochs(self) -> int:
        return 0

    def _learn(self, run: Run) -> dict[str, Any]:
        return self._choose(run)

    def _represent_view(self, networks: nn.Module, view: int, x: Tensor) -> Tensor:  # noqa: ARG002
        return x.clone()  # the memory of a block of streamed data is used again
