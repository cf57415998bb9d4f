r"""Deep Safe Incomplete Multi-View Clustering."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from dwcl.clustering.donors import find_donors
from dwcl.clustering.soft import mean_assignment
from dwcl.data.multiview import MultiView
from dwcl.errors import DataError
from dwcl.losses import cluster_contrast, negative_entropy, spectral
from dwcl.methods.base import Run
from dwcl.methods.pretraining import reconstruct
from dwcl.methods.settings import Count, CountOrNone, NotNegative, Positive, Widths
from dwcl.methods.soft import SoftClusterer
from dwcl.nn import PrecisionChoice, SharedHeads, joint_generator, perceptron
from dwcl.training.batches import Batch, Source, choose
from dwcl.training.endless import Endless
from dwcl.training.filling import Filled, mean_rows
from dwcl.training.look_ahead import look_ahead
from dwcl.training.loop import LossTerms

STEPS = 10
"""So many steps of the last phase are an epoch, one line of the history."""


class DSIMVC(SoftClusterer):
    r"""Deep Safe Incomplete Multi-View Clustering.

    Samples may lack views. Neighbours fill them in, which can be wrong; so the features of filled
    samples count by weights, and a small network learns these weights so that a step on complete
    and filled samples together lowers the loss on the complete ones.

    Each view v has an encoder; all views share a head for features :math:`H^v` and one for soft
    assignments :math:`Q^v` (rows sum to 1). On complete samples (C) the loss is

    .. math::

        L_C = \sum_{v<w} \Big[ \tfrac1b \sum_i \ell^{vw}_i + L_Q(Q^v, Q^w) \Big], \qquad
        L_Q = \overline{\ell_{\text{cluster}}} + \sum_{u \in \{v,w\}}
            \Big( \log k + \sum_c \pi^u_c \log \pi^u_c \Big)

    with the spectral contrast :math:`\ell^{vw}_i` of samples (:func:`dwcl.losses.spectral`), the
    contrast of clusters with negatives of their own view (:func:`dwcl.losses.cluster_contrast`) and
    the sizes :math:`\pi` of the clusters in the batch; on filled ones (I), with weights
    :math:`u_i = \omega_\varphi(\bar Q_i)` between 0 and 1,

    .. math::

        L_I = \sum_{v<w} \Big[ \tfrac1b \frac{\sum_i u_i \ell^{vw}_i}{\sum_i u_i}
            + L_Q(Q^v, Q^w) \Big].

    Each step first looks ahead, :math:`\theta' = \theta - \eta \nabla_\theta (L_C + L_I)`, and
    learns :math:`\varphi` on :math:`L_C(\theta')`; then :math:`\theta` on :math:`L_C + L_I` with
    the new weights as constants. Encoders begin as those of auto-encoders of the complete samples.
    A missing view is filled in by the mean over near samples that have it, as another network finds
    them, which learns reconstruction and then :math:`L_C` with features of length 1. A sample's
    cluster is that of the greatest share in the mean of Q over the views that it has; what was
    filled in has no part in this.

    Notes
    -----
    What differs from the reference code, or is to be known of it:

    * That code fills views in once, before the last phase; what it computes later to fill them in
      anew never reaches the training, and is not computed here.
    * It cannot take complete data. Here these have pre-training and the last phase with
      :math:`L_C` alone.
    * It looks for neighbours among all samples, also by values that count as missing, and takes
      those that have both views out of the nearest 600. Here they are looked for among the latter
      only, without a limit; a view beyond the first always adds its nearest one.
    * It carries filled values over from one run to the next; here nothing is carried over.
    * Scaling is found from the observed values alone.
    * The features of filled samples hardly count: :math:`1/b` of the others. That is the code's
      way; ``filled_features="mean"`` takes them in full.
    * A batch never holds a sample twice: with fewer samples than `batch_size` it has all of them.
    * The look-ahead is in fp32 whatever `precision` is.
    * A single view is its own partner: its clusters become distinct and equally large.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters k.
    encoder : tuple of int, default=(500, 500, 2000)
        Hidden widths of the encoders.
    decoder : tuple of int or None, default=None
        Hidden widths of the decoders; None mirrors the encoder.
    latent, features : int, default=512, 128
        Widths of the codes, and of H.
    pretrain_epochs : int, default=100
        Epochs of the auto-encoders.
    neighbour_pretrain_epochs, neighbour_epochs : int, default=200, 100
        Epochs of the network that finds neighbours: on reconstruction, and on contrast. Complete
        data need none.
    steps : int, default=200
        Steps of the last phase, whatever the number of samples; many samples want more.
    neighbours : int, default=3
        A missing view is filled in by at least so many samples, if there are as many.
    radius : float, default=3.0
        Features longer than its root count as if they were of that length.
    filled_features : {"share", "mean"}, default="share"
        Whether the features of filled samples count by 1/b of their weighted mean, or in full.
    weight_hidden : int, default=100
        Hidden width of the network of the weights.
    weight_learning_rate : float, default=4e-4
        Of its Adam.
    look_ahead : float, default=1e-3
        η, the length of the step that is looked ahead.
    batch_size : int, default=256
        Complete samples of a step, and filled ones beside them.
    learning_rate : float, default=3e-4
        Of Adam.
    scaling : str or dict, default="minmax"
        ``minmax``, ``standard``, ``row-l2``, ``none`` or ``auto``, for all views or by view.
    memory_budget : float, default=2.0
        GB that data and features may take in memory. Larger data are read by batches, in an order
        that a disk can serve; larger features are kept in files meanwhile. Rows that are filled in
        are kept in memory in any case.
    precision : {"auto", "fp32", "bf16"}, default="auto"
        Arithmetic of the layers while they learn; ``auto`` takes bf16 where the processor has it
        natively. Weights, losses and embeddings are in fp32 or better.
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
    embedding_ : ndarray of n × features, or None
        Mean of H over the views that a sample has; None where it is large for the memory budget
        (``transform`` gives it, also in parts).
    view_names_, view_widths_ : tuple
        The views in their order.
    n_complete_ : int
        Number of training samples that have all views.
    history_ : list of dict
        One record per epoch (losses); an epoch of the last phase is ten steps.
    precision_ : str
        What ``auto`` came to.
    notes_ : list of str
        What was noticed in the data.
    n_features_in_ : int
        Number of features of all views together.

    References
    ----------
    Huayi Tang, Yong Liu: Deep Safe Incomplete Multi-view Clustering: Theorem and Algorithm. ICML
    2022.

    Examples
    --------
    >>> from dwcl import make_multiview
    >>> from dwcl.methods.dsimvc import DSIMVC
    >>> data = make_multiview(120, 3, random_state=0)
    >>> model = DSIMVC(3, encoder=(32,), latent=16, pretrain_epochs=2, steps=5, random_state=0)
    >>> model.fit_predict(data).shape
    (120,)
    """

    method_name = "dsimvc"
    saved_results = ("n_complete_",)
    accepts_missing = True

    _incomplete = False

    def __init__(
        self,
        n_clusters: Count = 8,
        *,
        encoder: Widths = (500, 500, 2000),
        decoder: Widths | None = None,
        latent: Count = 512,
        features: Count = 128,
        pretrain_epochs: CountOrNone = 100,
        neighbour_pretrain_epochs: CountOrNone = 200,
        neighbour_epochs: CountOrNone = 100,
        steps: CountOrNone = 200,
        neighbours: Count = 3,
        radius: Positive = 3.0,
        filled_features: Literal["share", "mean"] = "share",
        weight_hidden: Count = 100,
        weight_learning_rate: Positive = 4e-4,
        look_ahead: NotNegative = 1e-3,
        batch_size: Count = 256,
        learning_rate: Positive = 3e-4,
        scaling: str | dict[str, str] = "minmax",
        memory_budget: Positive = 2.0,
        precision: PrecisionChoice = "auto",
        device: str = "auto",
        threads: Count | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.encoder = encoder
        self.decoder = decoder
        self.latent = latent
        self.features = features
        self.pretrain_epochs = pretrain_epochs
        self.neighbour_pretrain_epochs = neighbour_pretrain_epochs
        self.neighbour_epochs = neighbour_epochs
        self.steps = steps
        self.neighbours = neighbours
        self.radius = radius
        self.filled_features = filled_features
        self.weight_hidden = weight_hidden
        self.weight_learning_rate = weight_learning_rate
        self.look_ahead = look_ahead
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.scaling = scaling
        self.memory_budget = memory_budget
        self.precision = precision
        self.device = device
        self.threads = threads
        self.random_state = random_state

    # -- what the base asks for --------------------------------------------------------------------

    def _build(self, widths: Sequence[int], generators: Sequence[torch.Generator]) -> nn.Module:
        shared = joint_generator(generators)
        clustering, neighbours = (
            SharedHeads(
                widths,
                encoder=self.encoder,
                latent=self.latent,
                decoder=self.decoder or tuple(reversed(self.encoder)),
                features=self.features,
                n_clusters=self.n_clusters,
                generators=generators,
                shared=shared,
            )
            for _ in range(2)
        )
        return _Networks(clustering, neighbours, self.weight_hidden, self.n_clusters, shared)

    def _total_epochs(self) -> int:
        search = self.neighbour_pretrain_epochs + self.neighbour_epochs
        return self.pretrain_epochs + self._incomplete * search + math.ceil(self.steps / STEPS)

    def _represent(self, networks: nn.Module, xs: list[Tensor]) -> list[Tensor]:
        hs, _ = cast(_Networks, networks).clustering(xs)
        return [mean_assignment(hs, _observed(xs))]

    def _assign(self, networks: nn.Module, xs: list[Tensor]) -> Tensor:
        _, qs = cast(_Networks, networks).clustering(xs)
        return mean_assignment(qs, _observed(xs))

    def _widest_features(self, networks: nn.Module, xs: list[Tensor]) -> list[Tensor]:
        return _unit_features(cast(_Networks, networks).neighbours, xs)

    def _check_consistency(self, data: MultiView) -> None:
        complete = int(data.observed.all(axis=1).sum())
        self._incomplete = complete < data.n_samples
        if self._incomplete and complete < 2:
            raise DataError(
                f"{complete} of {data.n_samples} samples have every view; DSIMVC learns from such "
                "samples what views have in common, and needs 2 at least. Leave out views that "
                "most samples lack."
            )

    def _learn(self, run: Run) -> dict[str, Any]:
        networks = cast(_Networks, run.networks)
        whole = run.observed.all(1)
        complete = choose(run.source, whole.nonzero().flatten())
        weighting = run.trainer.optimiser(
            "weights", networks.weighting.parameters(), self.weight_learning_rate
        )
        run.trainer.phase(
            "pretrain",
            self.pretrain_epochs,
            partial(reconstruct, networks.clustering),
            source=complete,
            reset="phase",
        )
        draws = [Endless(complete, self.batch_size, partial(run.streams.torch, "complete"))]
        if not whole.all():
            lacking = choose(run.source, (~whole).nonzero().flatten())
            rows = [(~seen).nonzero().flatten() for seen in run.observed.T]
            donors = self._find_donors(run, complete)
            filled = Filled(lacking, run.source.n_samples, rows, mean_rows(run.source, donors))
            draws.append(Endless(filled, self.batch_size, partial(run.streams.torch, "filled")))
        run.trainer.phase(
            "cluster",
            math.ceil(self.steps / STEPS),
            partial(self.step, networks, weighting),
            batches=partial(self._steps, draws),
        )
        return {"n_complete_": complete.n_samples}

    # -- the parts ---------------------------------------------------------------------------------

    def contrast(self, networks: SharedHeads, batch: Batch) -> LossTerms:
        """Give L_C with features of length 1, by which the network of neighbours learns."""
        hs, qs = networks(batch.views)
        return self._complete([functional.normalize(h, dim=1) for h in hs], qs)

    def step(
        self, networks: _Networks, weighting: torch.optim.Optimizer, batch: Batch
    ) -> LossTerms:
        """Learn the weights, if there are filled samples, and give L_C + L_I with them."""
        n_views = len(networks.clustering.autoencoders)
        complete, filled = batch.views[:n_views], batch.views[n_views:]
        if not filled:
            return self._complete(*networks.clustering(complete))
        self.learn_weights(networks, weighting, complete, filled)
        hs, qs, hs_filled, qs_filled = _side_by_side(networks.clustering, complete, filled)
        terms = self._complete(hs, qs)
        with torch.no_grad():
            weights = networks.weigh(qs_filled)
        features = self._weighted(hs_filled, weights)
        clusters = self._clusters(qs_filled)
        return LossTerms(
            terms.total + features.sum() + clusters.sum(),
            {
                **terms.parts,
                "filled_contrast": features,
                "filled_clusters": clusters,
                "weight": weights.mean(),
            },
        )

    def learn_weights(
        self,
        networks: _Networks,
        weighting: torch.optim.Optimizer,
        complete: Sequence[Tensor],
        filled: Sequence[Tensor],
    ) -> None:
        """Take a step with the network of the weights, on L_C after a step that is looked ahead."""
        networks.eval()  # plain layers, which can be differentiated twice
        model = networks.clustering
        phi = list(networks.weighting.parameters())
        hs, qs, hs_filled, qs_filled = _side_by_side(model, complete, filled)

        def then(ahead: dict[str, Tensor]) -> Tensor:
            return self._complete(*functional_call(model, ahead, (list(complete),))).total

        gradients = look_ahead(
            model.without_decoders(),
            phi,
            weighted=self._weighted(hs_filled, networks.weigh(qs_filled)).sum(),
            rest=self._complete(hs, qs).total + self._clusters(qs_filled).sum(),
            then=then,
            length=self.look_ahead,
        )
        for parameter, gradient in zip(phi, gradients, strict=True):
            parameter.grad = gradient
        weighting.step()
        weighting.zero_grad(set_to_none=True)  # so that the optimiser of the run passes them by
        networks.train()

    def _complete(self, hs: Sequence[Tensor], qs: Sequence[Tensor]) -> LossTerms:
        """L_C of features and assignments (b × …, one per view)."""
        features = spectral(hs, _pairs(len(hs)), radius=self.radius).mean(1)
        clusters = self._clusters(qs)
        return LossTerms(
            features.sum() + clusters.sum(), {"contrast": features, "clusters": clusters}
        )

    def _clusters(self, qs: Sequence[Tensor]) -> Tensor:
        """L_Q by pair (P)."""
        pairs = _pairs(len(qs))
        contrast = cluster_contrast(qs, pairs, negatives="own").mean(1)
        uneven = math.log(self.n_clusters) + negative_entropy(qs)
        return contrast + torch.stack([uneven[v] + uneven[w] for v, w in pairs])

    def _weighted(self, hs: Sequence[Tensor], weights: Tensor) -> Tensor:
        """Contrast of filled samples with weights (b), by pair (P)."""
        total = weights.sum()
        shares = weights / torch.where(total > 0, total, 1)
        by_pair = spectral(hs, _pairs(len(hs)), radius=self.radius) @ shares
        return by_pair / len(weights) if self.filled_features == "share" else by_pair

    def _steps(self, draws: Sequence[Endless], epoch: int) -> Iterator[Batch]:
        """Yield the batches of an epoch of the last phase: complete views, then filled ones."""
        start = (epoch - 1) * STEPS
        drawn = (draw.steps(start, min(start + STEPS, self.steps)) for draw in draws)
        for batches in zip(*drawn, strict=True):
            yield Batch([x for batch in batches for x in batch.views], batches[0].index)

    def _find_donors(self, run: Run, complete: Source) -> list[Tensor]:
        """Train the network of neighbours, and find who fills in whom."""
        model = cast(_Networks, run.networks).neighbours
        run.trainer.phase(
            "neighbours-pretrain",
            self.neighbour_pretrain_epochs,
            partial(reconstruct, model),
            source=complete,
        )
        run.trainer.phase(
            "neighbours",
            self.neighbour_epochs,
            partial(self.contrast, model),
            source=complete,
            last_batch="drop",
        )

        def found() -> dict[str, Any]:
            with run.features(partial(_unit_features, model)) as hs:
                donors = find_donors(hs, run.observed, self.neighbours)
            return {str(v): names for v, names in enumerate(donors)}

        donors = run.trainer.once("donors", found)
        return [donors[str(v)].cpu() for v in range(len(run.view_names))]


class _Networks(nn.Module):
    """The clustering model, the network that finds neighbours, and that of the weights."""

    def __init__(
        self,
        clustering: SharedHeads,
        neighbours: SharedHeads,
        hidden: int,
        n_clusters: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.clustering = clustering
        self.neighbours = neighbours
        self.weighting = perceptron((n_clusters, hidden, 1), generator)

    def weigh(self, qs: Sequence[Tensor]) -> Tensor:
        """Q_v (b × k) of all views → weights of the samples (b), between 0 and 1."""
        weights: Tensor = self.weighting(mean_assignment(qs)).squeeze(1).sigmoid()
        return weights


def _pairs(n_views: int) -> list[tuple[int, int]]:
    """List the pairs of views; a single view is its own partner."""
    return list(combinations(range(n_views), 2)) or [(0, 0)]


def _side_by_side(
    model: SharedHeads, complete: Sequence[Tensor], filled: Sequence[Tensor]
) -> tuple[list[Tensor], ...]:
    """H and Q of complete samples, then H and Q of filled ones, in one pass."""
    b = len(complete[0])
    hs, qs = model([torch.cat(pair) for pair in zip(complete, filled, strict=True)])
    parts = [[part[:b] for part in hs], [part[:b] for part in qs]]
    return (*parts, [part[b:] for part in hs], [part[b:] for part in qs])


def _unit_features(model: SharedHeads, xs: list[Tensor]) -> list[Tensor]:
    """H of length 1, and 0 where a view is missing."""
    hs, _ = model(xs)
    return [
        functional.normalize(h, dim=1).masked_fill(x[:, :1].isnan(), 0)
        for h, x in zip(hs, xs, strict=True)
    ]


def _observed(xs: Sequence[Tensor]) -> Tensor:
    """Tell which samples have which views (b × V): rows of others are NaN."""
    return torch.stack([~x[:, 0].isnan() for x in xs], dim=1)
