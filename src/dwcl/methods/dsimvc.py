r"""Deep Safe Incomplete Multi-View Clustering."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
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
from dwcl.losses import balanced_contrast, spectral
from dwcl.methods.base import Run
from dwcl.methods.pretraining import reconstruct
from dwcl.methods.settings import Count, CountOrNone, NotNegative, Positive, Widths
from dwcl.methods.soft import SoftClusterer
from dwcl.nn import PrecisionChoice, SharedHeads, joint_generator, perceptron
from dwcl.training.batches import Batch, Source, choose
from dwcl.training.endless import Endless, by_steps
from dwcl.training.filling import filled_in
from dwcl.training.look_ahead import look_ahead
from dwcl.training.loop import LossTerms

STEPS = 10
"""So many steps of the last phase are an epoch, one line of the history."""
WEIGHT_HIDDEN = 100
"""Hidden width of the network of the weights."""


class DSIMVC(SoftClusterer):
    r"""Deep Safe Incomplete Multi-View Clustering.

    Samples may lack views. Neighbours fill them in, which can be wrong; so the features of filled
    samples count by weights, and a small network learns these weights so that a step on complete
    and filled samples together lowers the loss on the complete ones.

    Each view v has an encoder; all views share a head for features :math:`H^v` and one for soft
    assignments :math:`Q^v` (rows sum to 1). On complete samples (C) the loss is

    .. math::

        L_C = \sum_{v<w} \Big[ \tfrac1b \sum_i \ell^{vw}_i + L_Q(Q^v, Q^w) \Big]

    with the spectral contrast :math:`\ell^{vw}_i` of samples (:func:`dwcl.losses.spectral`) and the
    balanced contrast :math:`L_Q` of clusters (:func:`dwcl.losses.balanced_contrast`); on filled
    ones (I), with weights :math:`u_i = \omega_\varphi(\bar Q_i)` between 0 and 1,

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

    * That code fills views in once; what it computes later to fill them in anew never reaches the
      training, and is not computed here.
    * It cannot take complete data, which here have pre-training and the last phase with
      :math:`L_C` alone. A single view is its own partner: its clusters become distinct and equal.
    * It looks for neighbours among all samples, also by values that count as missing, and takes
      those that have both views out of the nearest 600. Here only the latter are looked among,
      without a limit; a view beyond the first always adds its nearest one.
    * Nothing that was filled in is left for another run, nor are missing values scaled by.
    * The features of filled samples hardly count: :math:`1/b` of the others, as in that code;
      ``filled_features="mean"`` takes them in full.
    * With fewer samples than `batch_size`, a batch has each of them once. The look-ahead is in fp32
      whatever `precision` is.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters k.
    encoder : tuple of int, default=(500, 500, 2000)
        Hidden widths of the encoders; the decoders mirror them.
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
    weight_learning_rate, look_ahead : float, default=4e-4, 1e-3
        Of Adam for the network of the weights; and η, the length of the step looked ahead.
    batch_size : int, default=256
        Complete samples of a step, and filled ones beside them.
    learning_rate : float, default=3e-4
        Of Adam.
    scaling : str or dict, default="minmax"
        ``minmax``, ``standard``, ``row-l2``, ``none`` or ``auto``, for all views or by view.
    memory_budget : float, default=2.0
        GB that data and features may take in memory, beside rows that are filled in. Larger data
        are read by batches, larger features kept in files meanwhile.
    precision : {"auto", "fp32", "bf16"}, default="auto"
        Arithmetic of the layers while they learn; ``auto`` takes bf16 where it is native.
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
        Mean of H over the views of a sample; None where it is large for the memory budget.
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
    H. Tang, Y. Liu: Deep Safe Incomplete Multi-view Clustering: Theorem and Algorithm. ICML 2022.

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
        latent: Count = 512,
        features: Count = 128,
        pretrain_epochs: CountOrNone = 100,
        neighbour_pretrain_epochs: CountOrNone = 200,
        neighbour_epochs: CountOrNone = 100,
        steps: CountOrNone = 200,
        neighbours: Count = 3,
        radius: Positive = 3.0,
        filled_features: Literal["share", "mean"] = "share",
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
        self.latent = latent
        self.features = features
        self.pretrain_epochs = pretrain_epochs
        self.neighbour_pretrain_epochs = neighbour_pretrain_epochs
        self.neighbour_epochs = neighbour_epochs
        self.steps = steps
        self.neighbours = neighbours
        self.radius = radius
        self.filled_features = filled_features
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
        models = (
            SharedHeads(
                widths,
                encoder=self.encoder,
                latent=self.latent,
                decoder=tuple(reversed(self.encoder)),
                features=self.features,
                n_clusters=self.n_clusters,
                generators=generators,
                shared=shared,
            )
            for _ in range(2)
        )
        return _Networks(models, self.n_clusters, shared)

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
                "samples, 2 at least. Leave out views that most samples lack."
            )

    def _learn(self, run: Run) -> dict[str, Any]:
        networks = cast(_Networks, run.networks)
        complete = choose(run.source, run.observed.all(1).nonzero().flatten())
        weighting = run.trainer.optimiser(
            "weights", networks.weighting.parameters(), self.weight_learning_rate
        )
        coding = partial(reconstruct, networks.clustering)
        run.trainer.phase("pretrain", self.pretrain_epochs, coding, source=complete, reset="phase")
        draws = [Endless(complete, self.batch_size, partial(run.streams.torch, "complete"))]
        if self._incomplete:
            filled = filled_in(run.source, run.observed, self._find_donors(run, complete))
            draws.append(Endless(filled, self.batch_size, partial(run.streams.torch, "filled")))
        run.trainer.phase(
            "cluster",
            math.ceil(self.steps / STEPS),
            partial(self.step, networks, weighting, draws[0].size),
            batches=by_steps(draws, self.steps, STEPS),
        )
        return {"n_complete_": complete.n_samples}

    # -- the parts ---------------------------------------------------------------------------------

    def contrast(self, networks: SharedHeads, batch: Batch) -> LossTerms:
        """Give L_C with features of length 1, by which the network of neighbours learns."""
        hs, qs = networks(batch.views)
        return self._complete([functional.normalize(h, dim=1) for h in hs], qs)

    def step(
        self, networks: _Networks, weighting: torch.optim.Optimizer, b: int, batch: Batch
    ) -> LossTerms:
        """Give L_C of the first b samples, and L_I of the others with weights that have learnt."""
        if len(batch) == b:
            return self._complete(*networks.clustering(batch.views))
        self.learn_weights(networks, weighting, b, batch)
        hs, qs = networks.clustering(batch.views)
        terms = self._complete(_upto(b, hs), _upto(b, qs))
        with torch.no_grad():
            weights = networks.weigh(_from(b, qs))
        features = self._weighted(_from(b, hs), weights)
        clusters = balanced_contrast(_from(b, qs), _pairs(len(qs)))
        parts = {"filled_contrast": features, "filled_clusters": clusters, "weight": weights.mean()}
        total = terms.total + features.sum() + clusters.sum()
        return LossTerms(total, {**terms.parts, **parts})

    def learn_weights(
        self, networks: _Networks, weighting: torch.optim.Optimizer, b: int, batch: Batch
    ) -> None:
        """Take a step with the network of the weights, on L_C after a step that is looked ahead."""
        networks.eval()  # plain layers, which can be differentiated twice
        model, phi = networks.clustering, list(networks.weighting.parameters())
        hs, qs = model(batch.views)
        of_filled = balanced_contrast(_from(b, qs), _pairs(len(qs)))

        def then(ahead: dict[str, Tensor]) -> Tensor:
            found = functional_call(model, ahead, (_upto(b, batch.views),))
            return self._complete(*found).total

        gradients = look_ahead(
            model.without_decoders(),
            phi,
            weighted=self._weighted(_from(b, hs), networks.weigh(_from(b, qs))).sum(),
            rest=self._complete(_upto(b, hs), _upto(b, qs)).total + of_filled.sum(),
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
        pairs = _pairs(len(hs))
        features = spectral(hs, pairs, radius=self.radius).mean(1)
        clusters = balanced_contrast(qs, pairs)
        parts = {"contrast": features, "clusters": clusters}
        return LossTerms(features.sum() + clusters.sum(), parts)

    def _weighted(self, hs: Sequence[Tensor], weights: Tensor) -> Tensor:
        """Contrast of filled samples with weights (b), by pair (P)."""
        total = weights.sum()
        shares = weights / torch.where(total > 0, total, 1)
        by_pair = spectral(hs, _pairs(len(hs)), radius=self.radius) @ shares
        return by_pair / len(weights) if self.filled_features == "share" else by_pair

    def _find_donors(self, run: Run, complete: Source) -> list[Tensor]:
        """Train the network of neighbours, and find who fills in whom."""
        model = cast(_Networks, run.networks).neighbours
        epochs, coding = self.neighbour_pretrain_epochs, partial(reconstruct, model)
        run.trainer.phase("neighbours-pretrain", epochs, coding, source=complete)
        epochs, contrast = self.neighbour_epochs, partial(self.contrast, model)
        run.trainer.phase("neighbours", epochs, contrast, source=complete, last_batch="drop")

        def found() -> dict[str, Any]:
            with run.features(partial(_unit_features, model)) as hs:
                donors = find_donors(hs, run.observed, self.neighbours)
            return {str(v): names for v, names in enumerate(donors)}

        donors = run.trainer.once("donors", found)
        return [donors[str(v)].cpu() for v in range(len(run.view_names))]


class _Networks(nn.Module):
    """The clustering model, the network that finds neighbours, and that of the weights."""

    def __init__(
        self, models: Iterable[SharedHeads], n_clusters: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.clustering, self.neighbours = models
        self.weighting = perceptron((n_clusters, WEIGHT_HIDDEN, 1), generator)

    def weigh(self, qs: Sequence[Tensor]) -> Tensor:
        """Q_v (b × k) of all views → weights of the samples (b), between 0 and 1."""
        weights: Tensor = self.weighting(mean_assignment(qs)).squeeze(1).sigmoid()
        return weights


def _pairs(n_views: int) -> list[tuple[int, int]]:
    """List the pairs of views; a single view is its own partner."""
    return list(combinations(range(n_views), 2)) or [(0, 0)]


def _upto(b: int, parts: Sequence[Tensor]) -> list[Tensor]:
    return [part[:b] for part in parts]


def _from(b: int, parts: Sequence[Tensor]) -> list[Tensor]:
    return [part[b:] for part in parts]


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
