r"""Dual-Weighted Contrastive Learning for multi-view clustering."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from dwcl.clustering.tables import Table, joined
from dwcl.data.multiview import MultiView
from dwcl.errors import SettingError
from dwcl.losses import infonce, reconstruction
from dwcl.methods.base import DeepMultiViewClusterer, Run
from dwcl.methods.pretraining import reconstruct
from dwcl.methods.settings import AtLeastTwo, Count, CountOrNone, NotNegative, Positive, Widths
from dwcl.nn import PrecisionChoice, ViewNetworks
from dwcl.training.batches import Batch
from dwcl.training.loop import LossTerms, OptimiserReset
from dwcl.views import (
    Assessment,
    Mechanism,
    Pair,
    QualityMeasure,
    SilhouetteQuality,
    ViewChoice,
    as_records,
    assess,
    by_agreement,
    by_quality,
    cmi_weight,
    exponential_quality_weight,
    weigh_pairs,
)


class DWCL(DeepMultiViewClusterer):
    r"""Dual-Weighted Contrastive Learning.

    Each view v has an auto-encoder with code :math:`H^v` and a linear head whose rows, brought to
    length 1, are :math:`\hat H^v`. After pre-training on reconstruction, each view is clustered by
    k-means; the view with the highest mean silhouette SI is the best one, B. For some epochs all
    views are then contrasted with B:

    .. math::

        L = \gamma \sum_{v=1}^{V} W^{v,B} \, \ell(\hat H^v, \hat H^B)
            + \lambda \sum_{v=1}^{V} \mathrm{MSE}(X^v, \hat X^v)

    with the symmetric InfoNCE loss :math:`\ell` (:func:`dwcl.losses.infonce`) and the dual weight

    .. math::

        W^{v,B} = \underbrace{e^{SI_v + SI_B}}_{\text{quality}}
            \cdot \underbrace{(e^{\mathrm{CMI}(v,B)} - 1)}_{\text{agreement}},

    where CMI is the normalised mutual information of the two views' clusters. Best view and
    weights are constants during an iteration and are found anew, from :math:`\hat H`, after it.
    The clusters are those of k-means on :math:`\hat H^1 \Vert \dots \Vert \hat H^V`.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters k. One is allowed, as everywhere in scikit-learn.
    mechanism : {"best-other", "pairwise"}, default="best-other"
        Which views are contrasted: each with the best (V terms), or all ordered pairs (V² terms).
    self_pairs : bool, default=True
        Whether a view is also contrasted with itself, as the paper's sums have it.
    quality : "silhouette" or callable, default="silhouette"
        The measure of a view's quality; see :class:`dwcl.views.QualityMeasure`.
    choose : {"quality", "agreement"} or callable, default="quality"
        How the best view is chosen: the highest quality, the highest agreement with the other
        views' clusters, or a function of both.
    quality_weight, discrepancy_weight : bool or callable, default=True
        The two factors of the weights: the paper's, none, or a function of the two qualities or
        of the agreement.
    contrast_weight, reconstruction_weight : float, default=1.0
        γ and λ. Pre-training always reconstructs.
    temperature : float, default=1.0
        Of the InfoNCE loss.
    encoder : tuple of int, default=(500, 500, 2000)
        Hidden widths of the encoders.
    decoder : tuple of int or None, default=None
        Hidden widths of the decoders; None mirrors the encoder.
    latent, embedding : int, default=512, 128
        Widths of H and Ĥ.
    pretrain_epochs : int, default=100
        Epochs on reconstruction alone.
    iterations, epochs : int, default=3, 50
        Number of contrastive iterations, and epochs in each.
    batch_size : int, default=128
        The last batch of an epoch may be short.
    learning_rate : float, default=3e-4
        Of Adam.
    optimiser_reset : {"never", "phase", "epoch"}, default="never"
        When Adam forgets its moments during contrastive learning.
    scaling : str or dict, default="minmax"
        ``minmax``, ``standard``, ``row-l2``, ``none`` or ``auto``, for all views or by view.
    n_init : int, default=10
        Restarts of every k-means.
    silhouette_budget : int, default=20000
        Up to so many samples the silhouette is exact; above, it is taken on a random sample of
        this size, and the history says so.
    memory_budget : float, default=2.0
        GB that data and features may take in memory. Larger data are read by batches, in an order
        that a disk can serve; larger features are kept in files meanwhile, and clustered by
        mini-batches.
    baselines : bool, default=True
        Whether the clusters of the pre-trained features alone are found too, as a yardstick.
    precision : {"auto", "fp32", "bf16"}, default="auto"
        Arithmetic of the layers while they learn; ``auto`` takes bf16 where the processor has it
        natively. Weights, losses, k-means, silhouettes and embeddings are in fp32 or better.
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
    cluster_centers_ : ndarray of k × V·embedding
        Centres in the joined embedding.
    embedding_ : ndarray of n × V·embedding, or None
        The joined embedding of the training data; None where it is large for the memory budget
        (``transform`` gives it, also in parts).
    view_names_, view_widths_ : tuple
        The views in their order.
    best_view_ : str
        The best view after the last iteration.
    view_quality_ : dict of str to float
        Quality of each view after the last iteration.
    pair_weights_ : list of dict
        Pairs and weights that follow from the last assessment.
    assessments_ : list of Assessment
        The state of the views before the first iteration and after each.
    baseline_labels_ : dict of str to ndarray
        ``bsv``: k-means on H of the best view after pre-training; ``concat-ae``: k-means on the
        joined H of all views. Empty if not asked for.
    history_ : list of dict
        One record per epoch (losses) and per assessment (qualities, agreements, best view, pairs).
    precision_ : str
        What ``auto`` came to.
    notes_ : list of str
        What was noticed in the data.
    n_features_in_ : int
        Number of features of all views together.

    References
    ----------
    Hanning Yuan, Zhihui Zhang, Lianhua Chi, Qi Guo, Sijie Ruan, Jinhui Pang, Xiaoshuai Hao: DWCL:
    Dual-Weighted Contrastive Learning for Multi-View Clustering. arXiv 2411.17354, 2024.

    Examples
    --------
    >>> from dwcl import DWCL, make_multiview
    >>> data = make_multiview(120, 3, random_state=0)
    >>> model = DWCL(3, pretrain_epochs=5, iterations=1, epochs=5, random_state=0)
    >>> model.fit_predict(data).shape
    (120,)
    """

    method_name = "dwcl"

    def __init__(
        self,
        n_clusters: Count = 8,
        *,
        mechanism: Mechanism = "best-other",
        self_pairs: bool = True,
        quality: Literal["silhouette"] | Callable[..., float] = "silhouette",
        choose: Literal["quality", "agreement"] | Callable[..., int] = "quality",
        quality_weight: bool | Callable[..., float] = True,
        discrepancy_weight: bool | Callable[..., float] = True,
        contrast_weight: NotNegative = 1.0,
        reconstruction_weight: NotNegative = 1.0,
        temperature: Positive = 1.0,
        encoder: Widths = (500, 500, 2000),
        decoder: Widths | None = None,
        latent: Count = 512,
        embedding: Count = 128,
        pretrain_epochs: CountOrNone = 100,
        iterations: CountOrNone = 3,
        epochs: CountOrNone = 50,
        batch_size: Count = 128,
        learning_rate: Positive = 3e-4,
        optimiser_reset: OptimiserReset = "never",
        scaling: str | dict[str, str] = "minmax",
        n_init: Count = 10,
        silhouette_budget: AtLeastTwo = 20_000,
        memory_budget: Positive = 2.0,
        baselines: bool = True,
        precision: PrecisionChoice = "auto",
        device: str = "auto",
        threads: Count | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.mechanism = mechanism
        self.self_pairs = self_pairs
        self.quality = quality
        self.choose = choose
        self.quality_weight = quality_weight
        self.discrepancy_weight = discrepancy_weight
        self.contrast_weight = contrast_weight
        self.reconstruction_weight = reconstruction_weight
        self.temperature = temperature
        self.encoder = encoder
        self.decoder = decoder
        self.latent = latent
        self.embedding = embedding
        self.pretrain_epochs = pretrain_epochs
        self.iterations = iterations
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimiser_reset = optimiser_reset
        self.scaling = scaling
        self.n_init = n_init
        self.silhouette_budget = silhouette_budget
        self.memory_budget = memory_budget
        self.baselines = baselines
        self.precision = precision
        self.device = device
        self.threads = threads
        self.random_state = random_state

    # -- what the base asks for --------------------------------------------------------------------

    def _build(self, widths: Sequence[int], generators: Sequence[torch.Generator]) -> nn.Module:
        return ViewNetworks(
            widths,
            encoder=self.encoder,
            latent=self.latent,
            decoder=tuple(reversed(self.encoder)) if self.decoder is None else self.decoder,
            embedding=self.embedding,
            generators=generators,
        )

    def _total_epochs(self) -> int:
        return self.pretrain_epochs + self.iterations * self.epochs

    def _represent(self, networks: nn.Module, xs: list[Tensor]) -> list[Tensor]:
        views = cast(ViewNetworks, networks)
        return views.project(views.encode(xs))

    def _widest_features(self, networks: nn.Module, xs: list[Tensor]) -> list[Tensor]:
        return cast(ViewNetworks, networks).encode(xs)

    def _check_consistency(self, data: MultiView) -> None:
        pairs = self.contrast_weight > 0 and (self.self_pairs or data.n_views > 1)
        if not pairs and self.reconstruction_weight == 0 and self.iterations * self.epochs > 0:
            raise SettingError(
                f"Nothing is left to learn: contrast_weight is {self.contrast_weight:g}, "
                f"self_pairs {self.self_pairs} with {data.n_views} view(s), and "
                "reconstruction_weight 0. Raise one of the weights above 0."
            )

    def _learn(self, run: Run) -> dict[str, Any]:
        networks = cast(ViewNetworks, run.networks)
        run.trainer.phase("pretrain", self.pretrain_epochs, partial(reconstruct, networks))
        first = run.trainer.once("assessment-0", partial(self._after_pretraining, run))
        assessments = [Assessment.from_state(first)]
        for iteration in range(1, self.iterations + 1):
            loss = partial(self.contrast, networks, self._pairs(assessments[-1]))
            name = f"contrast-{iteration}"
            run.trainer.phase(name, self.epochs, loss, reset=self.optimiser_reset)
            stage = f"assessment-{iteration}"
            after = run.trainer.once(stage, partial(self._after_iteration, run, iteration))
            assessments.append(Assessment.from_state(after))
        last = assessments[-1]
        return {
            "assessments_": assessments,
            "best_view_": last.best_name,
            "view_quality_": dict(zip(last.names, last.quality, strict=True)),
            "pair_weights_": as_records(self._pairs(last), last.names),
            "baseline_labels_": self._baseline_labels(assessments[0], first),
        }

    # -- the parts ---------------------------------------------------------------------------------

    def contrast(self, networks: ViewNetworks, pairs: list[Pair], batch: Batch) -> LossTerms:
        """γ · Σ weight · contrast + λ · Σ reconstruction, for one batch."""
        hs = networks.encode(batch.views)
        parts = {}
        total = torch.zeros((), device=hs[0].device)
        if self.contrast_weight and pairs:
            zs = networks.project(hs)
            rows = infonce(zs, [(p.v, p.w) for p in pairs], self.temperature)  # P × 2b
            by_pair = rows.mean(dim=1)
            weights = _weights(tuple(pairs), by_pair.device, by_pair.dtype)
            parts["contrast"] = by_pair
            total = total + self.contrast_weight * (weights * by_pair).sum()
        if self.reconstruction_weight:
            by_view = reconstruction(batch.views, networks.decode(hs))
            parts["reconstruction"] = by_view
            total = total + self.reconstruction_weight * by_view.sum()
        return LossTerms(total, parts)

    def _after_pretraining(self, run: Run) -> dict[str, Any]:
        """Judge the views by H, and cluster all of H for the yardstick."""
        networks = cast(ViewNetworks, run.networks)
        with run.features(networks.encode) as hs:
            state = self._assess(run, hs, 0).state()
            if self.baselines:
                state["concat-ae"] = run.cluster(joined(hs), self.n_init, "concat-ae").labels
        return state

    def _after_iteration(self, run: Run, iteration: int) -> dict[str, Any]:
        """Judge the views by Ĥ."""
        with run.features(partial(self._represent, run.networks)) as zs:
            return self._assess(run, zs, iteration).state()

    def _baseline_labels(self, first: Assessment, state: dict[str, Any]) -> dict[str, Any]:
        """Give the clusters of the pre-trained features alone: of the best view, and of all."""
        if not self.baselines:
            return {}
        return {
            "bsv": first.labels[first.best].cpu().numpy(),
            "concat-ae": state["concat-ae"].cpu().numpy(),
        }

    def _assess(self, run: Run, features: list[Table], iteration: int) -> Assessment:
        """Judge the views after an iteration (0: after pre-training) and put that on record."""
        quality = self._quality_measure()
        found = assess(
            features,
            run.view_names,
            run.n_clusters,
            quality=quality,
            choose=self._view_choice(),
            n_init=self.n_init,
            streams=run.streams,
            stage=f"assessment-{iteration}",
            exact=run.memory.exact,
        )
        record = {
            "event": "assessment",
            "iteration": iteration,
            **found.as_record(),
            "pairs": as_records(self._pairs(found), found.names),
        }
        if isinstance(quality, SilhouetteQuality):
            record["silhouette_samples"] = quality.samples_used(run.source.n_samples)
        run.trainer.record(record)
        return found

    def _pairs(self, assessment: Assessment) -> list[Pair]:
        return weigh_pairs(
            assessment,
            self.mechanism,
            quality_weight=_factor(self.quality_weight, exponential_quality_weight),
            discrepancy_weight=_factor(self.discrepancy_weight, cmi_weight),
            self_pairs=self.self_pairs,
        )

    def _quality_measure(self) -> QualityMeasure:
        if callable(self.quality):
            return self.quality
        return SilhouetteQuality(self.silhouette_budget)

    def _view_choice(self) -> ViewChoice:
        if callable(self.choose):
            return self.choose
        return {"quality": by_quality, "agreement": by_agreement}[self.choose]


@functools.lru_cache(maxsize=16)
def _weights(pairs: tuple[Pair, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Put the weights of the pairs (P) on a device, once for all steps of a phase."""
    return torch.tensor([pair.weight for pair in pairs], dtype=dtype, device=device)


def _factor(setting: bool | Callable[..., float], default: Callable[..., float]) -> Any:
    """Resolve a weight's setting: True is the paper's function, False none, else the user's own."""
    if callable(setting):
        return setting
    return default if setting else None
