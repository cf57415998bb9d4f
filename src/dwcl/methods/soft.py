"""The public face of methods whose networks name the clusters themselves."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dwcl.clustering.tables import joined
from dwcl.methods.base import DeepMultiViewClusterer, Run


class SoftClusterer(DeepMultiViewClusterer):
    """Base of the methods that end in a soft assignment of each sample to the clusters.

    A method states the assignment (:meth:`_assign`) beside its networks and features. A sample's
    cluster is that of its greatest share, and its distance to a cluster is 1 − share.
    """

    # Where a method has no k-means of its own: for that of others who judge its features.
    n_init: int = 10

    @abstractmethod
    def _assign(self, networks: nn.Module, xs: list[Tensor]) -> Tensor:
        """Map a block of samples to their shares in the clusters: b × k, rows sum to 1."""

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Assign samples, known or new, to the clusters: the greatest share decides."""
        return np.asarray(self.predict_proba(X).argmax(axis=1), dtype=np.int64)

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Return the share of every sample in every cluster, n × k; rows sum to 1."""
        networks = self._fitted_networks()

        def shares(xs: list[Tensor]) -> list[Tensor]:
            return [self._assign(networks, xs)]

        return self._through(X, self.n_clusters, shares)

    def _cluster_distances(self, networks: nn.Module, xs: list[Tensor]) -> Tensor:
        return 1 - self._assign(networks, xs)

    def _cluster(self, run: Run) -> dict[str, Any]:
        """Read the clusters off the assignments of all samples."""
        networks = run.networks

        def features(xs: list[Tensor]) -> list[Tensor]:
            return [*self._represent(networks, xs), self._assign(networks, xs)]

        with run.features(features) as (*parts, shares):
            every = shares[torch.arange(len(shares))]  # n × k, also where it lies in a file
            return {
                **self._kept(run, parts, joined(parts)),
                "labels_": every.argmax(dim=1).cpu().numpy().astype(np.int64),
            }
