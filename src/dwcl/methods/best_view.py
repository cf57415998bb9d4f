"""What the yardsticks share that cluster one view alone, the best one."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from dwcl.clustering.tables import Table
from dwcl.methods.base import DeepMultiViewClusterer, Run
from dwcl.views import Assessment, SilhouetteQuality, assess, by_quality

STAGE = "assessment-0"
"""Name of the choice, for its randomness: that of the first assessment in methods that go on."""


class BestViewClusterer(DeepMultiViewClusterer):
    """Base of the methods whose clusters are those of the best view.

    Each view is clustered by k-means; the best one is that of the highest mean silhouette, found
    without labels. A method states what is clustered in a view (:meth:`_represent_view`) and has
    its networks keep the choice (:func:`keep_choice`), so that it goes wherever they go.
    """

    n_init: int
    silhouette_budget: int

    @abstractmethod
    def _represent_view(self, networks: nn.Module, view: int, x: Tensor) -> Tensor:
        """Map a block of one view (b × d_v) to its features."""

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:  # noqa: ARG002
        """Name the columns of :meth:`transform` by the best view and position."""
        check_is_fitted(self)
        names = [f"{self.best_view_}_{i}" for i in range(self._n_features_out)]
        return np.asarray(names, dtype=object)

    def _represent(self, networks: nn.Module, xs: list[Tensor]) -> list[Tensor]:
        best = _chosen(networks)
        return [self._represent_view(networks, best, xs[best])]

    def _widest_features(self, networks: nn.Module, xs: list[Tensor]) -> list[Tensor]:
        return [self._represent_view(networks, view, x) for view, x in enumerate(xs)]

    def _find_centres(self, run: Run, features: Table) -> tuple[Tensor, float]:
        # By the stream of the assessment, so that these are the clusters that were judged.
        best = run.view_names[_chosen(run.networks)]
        found = run.cluster(features, self.n_init, STAGE, best)
        return found.centres, found.inertia

    def _choose(self, run: Run) -> dict[str, Any]:
        """Judge the views, let the networks keep which is the best, and return what was found."""
        found = Assessment.from_state(run.trainer.once(STAGE, partial(self._assess, run)))
        cast(Tensor, run.networks.best).fill_(found.best)
        return {
            "assessments_": [found],
            "best_view_": found.best_name,
            "view_quality_": dict(zip(found.names, found.quality, strict=True)),
        }

    def _assess(self, run: Run) -> dict[str, Any]:
        quality = SilhouetteQuality(self.silhouette_budget)
        with run.features(partial(self._widest_features, run.networks)) as features:
            found = assess(
                features,
                run.view_names,
                run.n_clusters,
                quality=quality,
                choose=by_quality,
                n_init=self.n_init,
                streams=run.streams,
                stage=STAGE,
                exact=run.memory.exact,
            )
        record = {"event": "assessment", "iteration": 0, **found.as_record()}
        used = quality.samples_used(run.source.n_samples)
        run.trainer.record({**record, "silhouette_samples": used})
        return found.state()


def keep_choice(networks: nn.Module) -> nn.Module:
    """Give networks a place for the position of the best view; until it is known, the first."""
    networks.register_buffer("best", torch.zeros((), dtype=torch.int64))
    return networks


def _chosen(networks: nn.Module) -> int:
    return int(cast(Tensor, networks.best))
