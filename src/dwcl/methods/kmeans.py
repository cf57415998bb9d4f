r"""k-means on all views joined: what clustering comes to without any learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dwcl.methods.base import DeepMultiViewClusterer, Run
from dwcl.methods.settings import Count, Positive


class KMeansConcat(DeepMultiViewClusterer):
    r"""k-means on the scaled inputs of all views joined, a yardstick without networks.

    Whoever trains networks should do better than this. The scaled views :math:`X^1, \dots, X^V` are
    put side by side, so that a sample is one long row, and the rows are clustered:

    .. math::

        \min_{\mu, c} \; \sum_i \sum_{v=1}^{V} \big\lVert x_i^v - \mu_{c(i)}^v \big\rVert^2 .

    Squared distances add up over the views, so that a view counts in proportion to its variance
    after scaling: under ``minmax`` that grows with the number of its features, and one wide view
    may outvote several narrow ones. Nothing is learnt, and there is nothing to be set about
    learning.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters k. One is allowed, as everywhere in scikit-learn.
    scaling : str or dict, default="minmax"
        ``minmax``, ``standard``, ``row-l2``, ``none`` or ``auto``, for all views or by view.
    n_init : int, default=10
        Restarts of k-means.
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
    cluster_centers_ : ndarray of k × Σ d_v
        Centres among the joined scaled inputs.
    inertia_ : float
        Sum of the squared distances of the samples to their centres.
    embedding_ : ndarray of n × Σ d_v, or None
        The joined scaled inputs; None where they are large for the memory budget.
    view_names_, view_widths_ : tuple
        The views in their order.
    history_ : list of dict
        Empty: there are no epochs.
    notes_ : list of str
        What was noticed in the data.
    n_features_in_ : int
        Number of features of all views together.

    Examples
    --------
    >>> from dwcl import make_multiview
    >>> from dwcl.methods.kmeans import KMeansConcat
    >>> data = make_multiview(120, 3, random_state=0)
    >>> KMeansConcat(3, random_state=0).fit_predict(data).shape
    (120,)
    """

    method_name = "kmeans"

    def __init__(
        self,
        n_clusters: Count = 8,
        *,
        scaling: str | dict[str, str] = "minmax",
        n_init: Count = 10,
        memory_budget: Positive = 2.0,
        device: str = "auto",
        threads: Count | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.scaling = scaling
        self.n_init = n_init
        self.memory_budget = memory_budget
        self.device = device
        self.threads = threads
        self.random_state = random_state

    def _build(
        self,
        widths: Sequence[int],  # noqa: ARG002 - nothing is built
        generators: Sequence[torch.Generator],  # noqa: ARG002
    ) -> nn.Module:
        return nn.Module()

    def _total_epochs(self) -> int:
        return 0

    def _learn(self, run: Run) -> dict[str, Any]:  # noqa: ARG002 - nothing is learnt
        return {}

    def _represent(self, networks: nn.Module, xs: list[Tensor]) -> list[Tensor]:  # noqa: ARG002
        return [x.clone() for x in xs]  # the memory of a block of streamed data is used again
