r"""Dual contrast-driven deep multi-view clustering (DCMVC)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, TypeAlias, cast

import torch
from torch import Tensor, nn

from dwcl.clustering.cosine import CosineKMeansResult, cosine_cluster, cosine_distances
from dwcl.clustering.distances import squared_distances
from dwcl.clustering.neighbours import batch_graph, neighbours_in_table
from dwcl.clustering.tables import Table
from dwcl.losses import centre_contrast, neighbour_contrast, reconstruction
from dwcl.methods.base import DeepMultiViewClusterer, Run
from dwcl.methods.pretraining import reconstruct
from dwcl.methods.settings import Count, CountOrNone, NotNegative, Positive, Widths
from dwcl.nn import AutoEncoders, PrecisionChoice, WeightedMean
from dwcl.training.batches import Batch, InMemory
from dwcl.training.loop import LossTerms

Graph: TypeAlias = Literal["full", "batch"]


class DCMVC(DeepMultiViewClusterer):
    r"""Dual contrast-driven deep multi-view clustering.

    Each view v has an auto-encoder with code :math:`H^v`; the codes are fused by learnt weights to
    one common code :math:`Z = \sum_v \omega_v H^v`, :math:`\omega = \operatorname{softmax}(a)`.
    After pre-training on reconstruction, k-means by angles on the common codes of all samples gives
    pseudo-labels y, anew at the beginning of each epoch; what follows is learnt with them:

    .. math::

        L = \sum_{v=1}^{V} \Big( \mathrm{MSE}(X^v, \hat X^v)
            + \frac{\alpha}{|P|} \sum_{c \in P} \ell^v_c + \frac{\beta}{b} \sum_i r^v_i \Big)

    *Clusters.* P are the clusters of which the batch has samples. With the unit vectors
    :math:`q_c` and :math:`u^v_c` along the mean of a cluster's Z and :math:`H^v`, the common
    centre is drawn to the view's and pushed away from other common ones:

    .. math::

        \ell^v_c = -\frac{q_c \cdot u^v_c}{\tau_c} + \log \Big( e^{q_c \cdot u^v_c / \tau_c}
            + \sum_{e \ne c} e^{q_c \cdot q_e / \tau_c} \Big).

    *Neighbours.* Samples i and j with i = j, or that are neighbours in the inputs of the view and
    have the same label, are positives (:math:`P^v`); those that are neither neighbours nor have
    the same label are negatives (:math:`M^v`), and the others are left alone:

    .. math::

        r^v_i = -\sum_{j \in P^v_i} \frac{\cos(H^v_i, Z_j)}{\tau}
            + \log \sum_{j \in M^v_i} \Big( e^{\cos(H^v_i, H^v_j) / \tau'}
            + e^{\cos(H^v_i, Z_j) / \tau'} \Big).

    The clusters are those of the same k-means on Z in the end.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters k.
    centre_weight, neighbour_weight : float, default=0.01, 0.1
        α and β.
    centre_temperature, temperature : float, default=0.5
        τ_c of the clusters, τ of the neighbours.
    negative_temperature : float or None, default=None
        τ' of the neighbours' negatives; None is τ².
    graph : {"full", "batch"}, default="full"
        Whether neighbours are looked for once among all samples, in a time that grows with n²,
        or in each batch among its own.
    n_neighbours : int, default=5
        A sample is joined to so many less one (it is the nearest to itself), and to those of which
        it is a neighbour.
    encoder : tuple of int, default=(500, 500, 2000)
        Hidden widths of the encoders; decoders mirror them.
    latent : int, default=256
        Width of the codes.
    pretrain_epochs : int, default=200
        Epochs on reconstruction alone.
    epochs : int, default=100
        Epochs on the whole objective.
    batch_size : int, default=256
        The last batch of an epoch may be short.
    learning_rate : float, default=1e-4
        Of Adam.
    scaling : str or dict, default="minmax"
        ``minmax``, ``standard``, ``row-l2``, ``none`` or ``auto``, for all views or by view.
    n_init : int, default=10
        Restarts of every k-means.
    memory_budget : float, default=2.0
        GB that data and features may take in memory. Larger data are read by batches, in an order
        that a disk can serve, and compared block by block; larger features are kept in files
        meanwhile, and clustered by passes over these.
    precision : {"auto", "fp32", "bf16"}, default="auto"
        Arithmetic of the layers while they learn; ``auto`` takes bf16 where the processor has it
        natively. Weights, losses, neighbours, k-means and embeddings are in fp32 or better.
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
    cluster_centers_ : ndarray of k × latent
        Centres in the common code: plain means, of which directions count. One without samples is
        zero.
    inertia_ : float
        Sum of the cosine distances of the samples to their centres.
    embedding_ : ndarray of n × latent, or None
        The common code of the training data; None where it is large for the memory budget
        (``transform`` gives it, also in parts).
    view_weights_ : dict of str to float
        ω, the weight of each view in the common code.
    view_names_, view_widths_ : tuple
        The views in their order.
    history_ : list of dict
        One record per epoch, with the losses of each view before any weight: ``reconstruction``,
        ``centres`` and ``neighbours``.
    precision_ : str
        What ``auto`` came to.
    notes_ : list of str
        What was noticed in the data.
    n_features_in_ : int
        Number of features of all views together.

    Notes
    -----
    What differs from the reference code:

    - Weights, neighbours and the graph are set per data set there (see the recipes), presumably
      with the labels in sight; it has no defaults for α and β.
    - A sample without negatives adds nothing of them to the loss. In the code it adds a constant,
      which is infinite where numbers below the normal range are off; gradients are the same.
      Negatives whose cosine is exactly 0, which the code drops, stay.
    - The graph is kept as positions of neighbours, never n × n. Copies of a sample do not cost it
      the place as its own positive, and fewer samples than neighbours are no obstacle.
    - The starts of k-means are drawn from a stream of the run's own, not from the seeds 0 to 9;
      they are the same in every epoch, as in the code.
    - The last batch of an epoch may have one sample.

    As in the code, the temperature of the neighbours is applied to negatives twice, unless
    ``negative_temperature`` says otherwise, and a cluster of which a batch has no sample stands in
    the sums over other clusters with :math:`e^{-10}`. Nothing holds the weights of the views back
    from favouring a single one: ``view_weights_`` tells.

    References
    ----------
    J. Cui, Y. Li, H. Huang, J. Wen: Dual contrast-driven deep multi-view clustering. IEEE
    Transactions on Image Processing 33 (2024), pp. 4753–4764.

    Examples
    --------
    >>> from dwcl import make_multiview
    >>> from dwcl.methods.dcmvc import DCMVC
    >>> data = make_multiview(120, 3, random_state=0)
    >>> model = DCMVC(3, encoder=(32,), latent=16, pretrain_epochs=5, epochs=5, random_state=0)
    >>> model.fit_predict(data).shape
    (120,)
    """

    method_name = "dcmvc"
    saved_results = ("view_weights_",)

    def __init__(
        self,
        n_clusters: Count = 8,
        *,
        centre_weight: NotNegative = 0.01,
        neighbour_weight: NotNegative = 0.1,
        centre_temperature: Positive = 0.5,
        temperature: Positive = 0.5,
        negative_temperature: Positive | None = None,
        graph: Graph = "full",
        n_neighbours: Count = 5,
        encoder: Widths = (500, 500, 2000),
        latent: Count = 256,
        pretrain_epochs: CountOrNone = 200,
        epochs: CountOrNone = 100,
        batch_size: Count = 256,
        learning_rate: Positive = 1e-4,
        scaling: str | dict[str, str] = "minmax",
        n_init: Count = 10,
        memory_budget: Positive = 2.0,
        precision: PrecisionChoice = "auto",
        device: str = "auto",
        threads: Count | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.centre_weight = centre_weight
        self.neighbour_weight = neighbour_weight
        self.centre_temperature = centre_temperature
        self.temperature = temperature
        self.negative_temperature = negative_temperature
        self.graph = graph
        self.n_neighbours = n_neighbours
        self.encoder = encoder
        self.latent = latent
        self.pretrain_epochs = pretrain_epochs
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.scaling = scaling
        self.n_init = n_init
        self.memory_budget = memory_budget
        self.precision = precision
        self.device = device
        self.threads = threads
        self.random_state = random_state

    # -- what the base asks for --------------------------------------------------------------------

    def _build(self, widths: Sequence[int], generators: Sequence[torch.Generator]) -> nn.Module:
        return FusedNetworks(
            widths,
            encoder=self.encoder,
            latent=self.latent,
            decoder=tuple(reversed(self.encoder)),
            generators=generators,
        )

    def _total_epochs(self) -> int:
        return self.pretrain_epochs + self.epochs

    def _represent(self, networks: nn.Module, xs: list[Tensor]) -> list[Tensor]:
        views = cast(FusedNetworks, networks)
        return [views.fusion(views.encode(xs))]

    def _find_centres(self, run: Run, features: Table) -> tuple[Tensor, float]:
        found = self._by_angles(run, features)
        return found.centres, found.distance

    def _distances_to(self, centres: Tensor, features: Tensor) -> Tensor:
        return cosine_distances(features, centres)

    def _learn(self, run: Run) -> dict[str, Any]:
        networks = cast(FusedNetworks, run.networks)
        run.trainer.phase("pretrain", self.pretrain_epochs, partial(reconstruct, networks))
        neighbours: list[Tensor] | None = None
        if self.graph == "full" and self.epochs:
            # Of time there would be n² to spend again after an interruption, but of memory only n.
            found = run.trainer.once("neighbours", partial(self._neighbours, run))
            neighbours = [found[str(v)] for v in range(len(run.view_names))]
        run.trainer.phase(
            "contrast",
            self.epochs,
            partial(self.contrast, networks, neighbours),
            refresh=partial(self._pseudo_labels, run),
        )
        weights = networks.fusion.weights().tolist()
        return {"view_weights_": dict(zip(run.view_names, weights, strict=True))}

    # -- the parts ---------------------------------------------------------------------------------

    def contrast(
        self,
        networks: FusedNetworks,
        neighbours: list[Tensor] | None,
        batch: Batch,
        *,
        labels: Tensor,
    ) -> LossTerms:
        """Σ reconstruction + α · Σ contrast of centres + β · Σ contrast of neighbours."""
        hs = networks.encode(batch.views)
        common = networks.fusion(hs)
        views = torch.stack(hs)  # V × b × d
        y = labels[batch.index]
        by_centre, present = centre_contrast(
            common, views, y, self.n_clusters, self.centre_temperature
        )
        negative_temperature = self.negative_temperature or self.temperature**2
        by_sample = neighbour_contrast(
            common, views, self._near(neighbours, batch), y, self.temperature, negative_temperature
        )
        parts = {
            "reconstruction": reconstruction(batch.views, networks.decode(hs)),
            "centres": by_centre.sum(dim=1) / present.sum(),
            "neighbours": by_sample.mean(dim=1),
        }
        total = (
            parts["reconstruction"].sum()
            + self.centre_weight * parts["centres"].sum()
            + self.neighbour_weight * parts["neighbours"].sum()
        )
        return LossTerms(total, parts)

    def _near(self, neighbours: list[Tensor] | None, batch: Batch) -> Tensor:
        """Tell (V × b × b) who is joined with whom in the graph of each view."""
        if neighbours is not None:
            return torch.stack([batch_graph(graph, batch.index) for graph in neighbours])
        return torch.stack([_graph_within(x, self.n_neighbours - 1) for x in batch.views])

    def _pseudo_labels(self, run: Run, epoch: int) -> dict[str, Any]:  # noqa: ARG002
        """Cluster the common codes of all samples as they are now."""
        with run.features(partial(self._represent, run.networks)) as (table,):
            return {"labels": self._by_angles(run, table).labels}

    def _by_angles(self, run: Run, common: Table) -> CosineKMeansResult:
        """Cluster common codes, from the same starts each time."""
        return cosine_cluster(
            common,
            self.n_clusters,
            n_init=self.n_init,
            generator=run.streams.torch("kmeans", "common"),
            budget=run.memory.exact,
        )

    def _neighbours(self, run: Run) -> dict[str, Any]:
        """Find the neighbours (n × m) of all samples in the inputs of each view."""
        others = min(self.n_neighbours, run.source.n_samples) - 1
        found = {}
        for v in range(len(run.view_names)):
            with _inputs(run, v) as table:
                near = neighbours_in_table(
                    table, others, budget=run.memory.exact, watch=run.trainer.check_stop
                )
            found[str(v)] = near.int()  # every checkpoint has them
        return found


class FusedNetworks(AutoEncoders):
    """Auto-encoders whose codes are fused to one; parameters as for AutoEncoders."""

    def __init__(self, widths: Sequence[int], **how: Any) -> None:
        super().__init__(widths, **how)
        self.fusion = WeightedMean(len(widths))


@torch.no_grad()
def _graph_within(x: Tensor, n_neighbours: int) -> Tensor:
    """Join the samples of a batch (b × d) with their nearest ones: b × b, symmetric, no loops."""
    b = len(x)
    distances = squared_distances(x).fill_diagonal_(torch.inf)
    near = distances.topk(min(n_neighbours, b - 1), dim=1, largest=False).indices
    return batch_graph(near, torch.arange(b, device=x.device))


@contextmanager
def _inputs(run: Run, view: int) -> Iterator[Table]:
    """Hold the scaled inputs of a view for all samples, in memory or in a file."""
    if isinstance(run.source, InMemory):
        yield run.source.views[view]
        return
    # A copy, since a source reads its next block into the same memory.
    with run.features(lambda xs: [xs[view].clone()]) as (table,):
        yield table
