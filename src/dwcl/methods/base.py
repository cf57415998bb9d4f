"""The public face that all deep methods share: scikit-learn's contract around one training run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from dwcl.clustering.kmeans import KMeansResult, centre_distances
from dwcl.clustering.minibatch import cluster
from dwcl.clustering.tables import Table, joined
from dwcl.data.checks import check_finite, check_values
from dwcl.data.multiview import MultiView
from dwcl.data.profiles import Profiles, profile_views
from dwcl.data.scaling import Scaling
from dwcl.methods.inputs import check_missing, check_size, matching_views, training_views
from dwcl.methods.keeping import identity_of, keeping
from dwcl.methods.settings import check_settings
from dwcl.methods.sources import make_source, pick_device
from dwcl.nn import PrecisionChoice, resolve_precision, set_precision
from dwcl.streams import RandomStreams
from dwcl.training.batches import Source
from dwcl.training.callbacks import Callback, Guard, RunInfo
from dwcl.training.checkpoint import Checkpoints, Keeper
from dwcl.training.features import EMBEDDING_ROWS, Forward, embedded_blocks, feature_tables
from dwcl.training.loop import Trainer
from dwcl.training.memory import (
    MemoryPlan,
    check_fits,
    count_parameters,
    estimate,
    free_memory,
)
from dwcl.training.session import StopRequest, in_session


@dataclass(frozen=True)
class Run:
    """What a method works with during one fit."""

    networks: nn.Module
    source: Source
    trainer: Trainer
    streams: RandomStreams
    view_names: tuple[str, ...]
    n_clusters: int
    memory: MemoryPlan
    observed: Tensor
    """Which samples have which views (n × V, bool, on the CPU)."""

    def features(self, forward: Forward) -> AbstractContextManager[list[Table]]:
        """Hold what `forward` makes of all samples, in memory or in files as the plan has it."""
        return feature_tables(self.networks, self.source, forward, budget=self.memory.features)

    def cluster(self, features: Table, n_init: int, *stage: str) -> KMeansResult:
        """k-means of all samples, exact or by mini-batches as the plan has it."""
        return cluster(
            features,
            self.n_clusters,
            n_init=n_init,
            generator=self.streams.torch("kmeans", *stage),
            budget=self.memory.exact,
        )


@dataclass(frozen=True)
class Job:
    """What a fit hands to its training thread: data, their scaling, randomness, who looks on."""

    data: MultiView
    observed: NDArray[np.bool_]
    scaling: Scaling
    streams: RandomStreams
    callbacks: tuple[Callback, ...]
    keeper: Keeper | None


class DeepMultiViewClusterer(TransformerMixin, ClusterMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the methods that train networks on several views and cluster what these make.

    A method states its networks (:meth:`_build`), how they learn (:meth:`_learn`) and what comes
    out of them for a sample (:meth:`_represent`); the base checks, scales, seeds, runs the training
    thread, clusters, and keeps the results. Ground truth reaches none of it.

    Clusters are those of k-means on the features. A method with centres of another kind states how
    they are found (:meth:`_find_centres`) and how far a sample is from them
    (:meth:`_distances_to`); one whose networks name the clusters themselves is a
    :class:`~dwcl.methods.soft.SoftClusterer`.

    Attributes
    ----------
    method_name : str
        Name in the registry, on the command line and in model files.
    saved_results : tuple of str
        Fitted attributes of its own that go into model files: plain values, as JSON has them.
    accepts_missing : bool
        Whether samples may lack views. Then their rows in `xs` and batches are NaN throughout.
    networks_, scaling_ : torch.nn.Module, Scaling
        What samples go through.
    seed_, precision_ : int, str
        What ``random_state`` and ``precision="auto"`` came to.
    view_names_, view_widths_, view_columns_, sample_ids_ : tuple, tuple, dict, ndarray
        The views in their order, names of their columns where they had some, and of the samples.
    n_features_in_, feature_widths_, inertia_ : int, tuple of int, float
        Widths of the data and of the features clustered; how far samples lie from their centres.
    """

    method_name: ClassVar[str]
    saved_results: ClassVar[tuple[str, ...]] = ()
    accepts_missing: ClassVar[bool] = False

    # Parameters that every method has; each states them in its own signature.
    n_clusters: int
    scaling: Any
    n_init: int
    memory_budget: float
    device: str
    threads: int | None
    random_state: Any
    # And of those that learn; a method that does not has them as they stand here.
    batch_size: int = 256
    learning_rate: float = 1e-3
    precision: PrecisionChoice = "fp32"

    # -- what a method states ----------------------------------------------------------------------

    @abstractmethod
    def _build(self, widths: Sequence[int], generators: Sequence[torch.Generator]) -> nn.Module:
        """Make the networks for views of the given widths, start values from the generators."""

    @abstractmethod
    def _total_epochs(self) -> int:
        """Count the epochs of all phases."""

    @abstractmethod
    def _learn(self, run: Run) -> dict[str, Any]:
        """Train, and return the fitted attributes that belong to the method."""

    @abstractmethod
    def _represent(self, networks: nn.Module, xs: list[Tensor]) -> list[Tensor]:
        """Map a block of samples to its features: one tensor per view, or one for all of them."""

    def _find_centres(self, run: Run, features: Table) -> tuple[Tensor, float]:
        """Cluster the joined features of all samples: centres (k × d) and inertia."""
        found = run.cluster(features, self.n_init, "final")
        return found.centres, found.inertia

    def _distances_to(self, centres: Tensor, features: Tensor) -> Tensor:
        """Measure how far samples (b × d) are from centres (k × d): b × k, the least decides."""
        return centre_distances(features, centres)

    def _widest_features(self, networks: nn.Module, xs: list[Tensor]) -> list[Tensor]:
        """Map samples to the largest features that are ever held for all of them."""
        return self._represent(networks, xs)

    def _check_consistency(self, data: MultiView) -> None:
        """Refuse settings that make no sense together or with these data."""

    def _remarks(self, scaling: Scaling, profiles: Profiles) -> list[str]:  # noqa: ARG002
        """Say what the method cannot make the best of in the data, and why."""
        return []

    # -- the contract ------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002 - the contract has it
        *,
        callbacks: Iterable[Callback] = (),
        checkpoint: str | Path | Checkpoints | None = None,
    ) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : MultiView, dict or list of tables, or a single table
            Samples in rows; a single table is one view.
        y : ignored
            There for the ecosystem's sake; ground truth has no part in fitting.
        callbacks : iterable of Callback
            Told of every epoch and every assessment.
        checkpoint : path or Checkpoints, optional
            Folder for checkpoints. An interrupted fit with the same data and settings goes on from
            the last one and ends in the same bytes; after a fit that ended they are removed.
        """
        check_settings(type(self), self.get_params(deep=False))
        data = training_views(self, X)
        check_size(data, self.n_clusters)
        self._check_consistency(data)
        profiles = profile_views(data)
        observed = check_missing(self, data, profiles, training=True)
        check_finite(data, profiles)
        scaling = Scaling.fit(data, self.scaling, profiles)
        notes = check_values(data, scaling_kinds=scaling.kinds, profiles=profiles)
        notes = [*scaling.notes, *notes, *self._remarks(scaling, profiles)]
        if data.provenance.source is None:  # of tables from memory: which samples were matched
            notes = [*data.provenance.layout, *notes]
        self._check_memory(data)
        with keeping(checkpoint, partial(self._identity, data)) as keeper:
            streams = RandomStreams(self._seed(keeper))
            job = Job(data, observed, scaling, streams, tuple(callbacks), keeper)
            results = in_session(partial(self._run, job), self.threads)
        self.scaling_ = scaling
        self.notes_ = notes
        self.seed_ = streams.seed
        self.view_names_ = data.names
        self.view_widths_ = data.widths
        self.view_columns_ = dict(data.columns)
        self.sample_ids_ = data.sample_ids
        for name, value in results.items():
            setattr(self, name, value)
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Assign samples, known or new, to the clusters: the nearest centre decides."""
        distances = self.centre_distances(X)
        return np.asarray(distances.argmin(axis=1), dtype=np.int64)

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Map samples to the features that were clustered, joined over the views.

        Like :meth:`predict`, this runs on the processor, whatever device the fit was on.
        """
        networks = self._fitted_networks()
        return self._through(X, self._n_features_out, partial(self._represent, networks))

    def centre_distances(self, X: Any) -> NDArray[np.float32]:
        """Return the distance of every sample to every cluster's centre, n × k."""
        networks = self._fitted_networks()

        def distances(xs: list[Tensor]) -> list[Tensor]:
            return [self._cluster_distances(networks, xs)]

        return self._through(X, self.n_clusters, distances)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:  # noqa: ARG002
        """Name the columns of :meth:`transform` by view, or else method, and position."""
        check_is_fitted(self)
        widths: Sequence[int] = self.feature_widths_
        by_view = len(widths) == len(self.view_names_)
        parts = self.view_names_ if by_view else [self.method_name] * len(widths)
        names = [f"{part}_{i}" for part, d in zip(parts, widths, strict=True) for i in range(d)]
        return np.asarray(names, dtype=object)

    @property
    def _n_features_out(self) -> int:
        return sum(self.feature_widths_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    # -- one fit -----------------------------------------------------------------------------------

    def _run(self, job: Job, stop: StopRequest) -> dict[str, Any]:
        names, streams = job.data.names, job.streams
        device = pick_device(self.device)
        plan = self._memory_plan(job.data)
        source = make_source(job.data, job.scaling, plan, device)
        generators = [streams.torch("networks", name) for name in names]
        networks = self._build(job.data.widths, generators).to(device)
        precision = resolve_precision(self.precision, device)
        set_precision(networks, precision)
        watchers = (Guard(), *job.callbacks)
        trainer = Trainer(
            networks,
            source,
            streams,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            callbacks=watchers,
            stop=stop,
            keeper=job.keeper,
        )
        observed = torch.from_numpy(job.observed)
        run = Run(networks, source, trainer, streams, names, self.n_clusters, plan, observed)
        try:
            past = tuple(trainer.history)  # of a run that goes on
            for watcher in watchers:
                watcher.on_start(RunInfo(self.method_name, names, self._total_epochs(), past))
            learnt = self._learn(run)
            trainer.end()
            return {
                **learnt,
                **self._cluster(run),
                "precision_": precision,
                "history_": trainer.history,
            }
        finally:
            for watcher in watchers:
                watcher.on_end()

    def _identity(self, data: MultiView) -> dict[str, Any]:
        """State what decides the result of a fit, for its checkpoints."""
        device = pick_device(self.device)
        return identity_of(
            self.method_name,
            self.get_params(deep=False),
            data,
            precision=resolve_precision(self.precision, device),
            device=str(device),
        )

    def _seed(self, keeper: Keeper | None) -> Any:
        """Choose the random state: a run that goes on keeps the seed that it began with."""
        if keeper is None or keeper.restored is None:
            return self.random_state
        return keeper.restored.plain["seed"]

    def _cluster(self, run: Run) -> dict[str, Any]:
        """Find the clusters from the features of all samples."""
        with run.features(partial(self._represent, run.networks)) as parts:
            table = joined(parts)
            centres, inertia = self._find_centres(run, table)
            # The labels are those of the nearest centre under the arithmetic that predict uses.
            blocks = (table[i : i + EMBEDDING_ROWS] for i in range(0, len(table), EMBEDDING_ROWS))
            labels = torch.cat([self._distances_to(centres, x).argmin(dim=1) for x in blocks])
            return {
                **self._kept(run, parts, table),
                "cluster_centers_": centres.cpu().numpy(),
                "labels_": labels.cpu().numpy().astype(np.int64),
                "inertia_": inertia,
            }

    def _kept(self, run: Run, parts: Sequence[Table], table: Table) -> dict[str, Any]:
        """Gather what stays of the features of all samples, in parts and joined."""
        return {
            "networks_": run.networks.cpu(),
            "embedding_": table.cpu().numpy() if isinstance(table, Tensor) else None,
            "feature_widths_": tuple(int(part.shape[1]) for part in parts),
        }

    def _cluster_distances(self, networks: nn.Module, xs: list[Tensor]) -> Tensor:
        """Measure how far a block of samples is from each cluster, b × k."""
        centres = torch.from_numpy(self.cluster_centers_)
        return self._distances_to(centres, torch.cat(self._represent(networks, xs), dim=1))

    def _through(self, X: Any, width: int, forward: Forward) -> NDArray[np.float32]:
        """Send samples through fitted networks by blocks, and join what comes out (n × width)."""
        data = self._prepare(X)

        def work(_: StopRequest) -> NDArray[np.float32]:
            plan = self._memory_plan(data)
            source = make_source(data, self.scaling_, plan, torch.device("cpu"))
            found = np.empty((data.n_samples, width), dtype=np.float32)
            start = 0
            for parts in embedded_blocks(self._fitted_networks(), source, forward):
                stop = start + len(parts[0])
                found[start:stop] = torch.cat(list(parts), dim=1).numpy()
                start = stop
            return found

        return in_session(work, self.threads)

    # -- memory ------------------------------------------------------------------------------------

    def _memory_plan(self, data: MultiView) -> MemoryPlan:
        return MemoryPlan.of(data.n_samples, data.widths, self.memory_budget)

    def _check_memory(self, data: MultiView) -> None:
        """Refuse a fit for which the machine has too little memory, before it is under way."""
        with torch.device("meta"):
            networks = self._build(data.widths, [torch.Generator() for _ in data.names])
            networks.eval()
            xs = [torch.empty(1, width) for width in data.widths]
            features = sum(part.shape[1] for part in self._widest_features(networks, xs))
        plan = self._memory_plan(data)
        parameters = count_parameters(networks)
        check_fits(estimate(plan, data.n_samples, data.widths, parameters, features), free_memory())

    # -- input -------------------------------------------------------------------------------------

    def _prepare(self, X: Any) -> MultiView:
        """Check samples for the fitted networks, and bring their views into the fit's order."""
        self._fitted_networks()
        data = matching_views(self, X)
        profiles = profile_views(data)
        check_missing(self, data, profiles, training=False)
        check_finite(data, profiles)
        self.scaling_.check(data)
        return data.select(self.view_names_)

    def _fitted_networks(self) -> nn.Module:
        check_is_fitted(self, "networks_")
        networks: nn.Module = self.networks_
        return networks
