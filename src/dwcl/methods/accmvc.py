r"""ACCMVC: views against a common feature that shared anchors refine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from dwcl.clustering.neighbours import neighbour_shares
from dwcl.losses import damped_infonce, reconstruction
from dwcl.methods.base import DeepMultiViewClusterer, Run
from dwcl.methods.pretraining import reconstruct
from dwcl.methods.settings import Count, CountOrNone, Positive, Share, Widths
from dwcl.nn import AutoEncoders, PrecisionChoice, joint_generator, perceptron
from dwcl.training.batches import Batch
from dwcl.training.loop import LossTerms


class ACCMVC(DeepMultiViewClusterer):
    r"""Anchor-Sharing and Cluster-wise Contrastive Network.

    Each view v has an auto-encoder with code :math:`H^v`. The codes of all views, side by side,
    are the joint code :math:`C = H^1 \Vert \dots \Vert H^V`, in which every sample is expressed
    once more by anchors that all samples share: its shares in them say what it is made of, and
    what they give back is added to it. A linear map of the sum, rows brought to length 1, is the
    common feature

    .. math::

        \hat F = \frac{F}{\Vert F \Vert}, \qquad
        F = W \, (C + A' \, \mathrm{softmax}(A \, C)) + w,

    with A and A′ linear and without a bias. After pre-training on reconstruction, each view,
    through one head :math:`\hat H^v` that all views share, is contrasted with the common feature:

    .. math::

        L = \sum_{v=1}^{V} \frac{1}{2b} \sum_{a=1}^{2b} \ell_a(\hat H^v, \hat F; P)
            + \sum_{v=1}^{V} \mathrm{MSE}(X^v, \hat X^v)

    where the rows a are the b samples of a batch, once in the view and once in the common feature,
    and

    .. math::

        \ell_a = -\frac{s_{a,p(a)}}{\tau} + \log \Big( e^{s_{a,p(a)}/\tau}
            + \sum_{c \ne a, p(a)} e^{(1 - P_{i(a) i(c)}) \, s_{a,c}/\tau} \Big)

    has the products s of two rows, the partner p(a) of a row and its sample i(a). The likely
    members of one cluster are pushed apart less, as far as they are neighbours:

    .. math::

        P_{ij} = \frac{\max(0, t_i - D_{ij})}{m \, t_i - \sum_{l < m} \delta_i(l)},
        \qquad t_i = \delta_i(m) + \varepsilon,

    with the squared distances D of the rows of :math:`\hat F` in the batch and
    :math:`\delta_i(0) \le \delta_i(1) \le \dots`, the sorted ones of sample i. P is made anew in
    every batch, and gradients flow through it. The clusters are those of k-means on
    :math:`\hat F`.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters k.
    temperature : float, default=0.5
        τ.
    anchors : int, default=64
        Number of anchors.
    neighbours : int, default=10
        m, the sample itself included, so that one less are spared. In a batch of b samples at most
        b − 1 count.
    guard : float, default=1e-10
        ε. It keeps P defined for samples that coincide; a larger one, such as 1e-6, bounds the
        gradients where more than m samples of a batch nearly do.
    dropout : float, default=0.1
        Share of what the anchors give back that is left out at random.
    dropout_epochs : int or None, default=1
        So many of the first contrastive epochs have dropout; None: all of them.
    encoder : tuple of int, default=(500, 500, 2000)
        Hidden widths of the encoders.
    decoder : tuple of int or None, default=None
        Hidden widths of the decoders; None mirrors the encoder.
    latent, embedding : int, default=512, 128
        Widths of H, and of Ĥ and F̂.
    pretrain_epochs : int, default=200
        Epochs on reconstruction alone.
    epochs : int, default=50
        Epochs of the contrast.
    batch_size : int, default=256
        A short last batch is left out, in both phases; fewer samples than this are one batch.
    learning_rate : float, default=3e-4
        Of Adam, which keeps its moments through both phases.
    scaling : str or dict, default="minmax"
        ``minmax``, ``standard``, ``row-l2``, ``none`` or ``auto``, for all views or by view.
    n_init : int, default=10
        Restarts of k-means. The reference takes 100; those beyond ten cost more than they give.
    memory_budget : float, default=2.0
        GB that data and features may take in memory. Larger data are read by batches; larger
        features are kept in files meanwhile, and clustered by mini-batches.
    precision : {"auto", "fp32", "bf16"}, default="auto"
        Arithmetic of the layers while they learn; ``auto`` takes bf16 where the processor has it
        natively. Weights, losses, k-means and embeddings are in fp32 or better.
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
    cluster_centers_ : ndarray of k × embedding
        Centres among the common features.
    inertia_ : float
        Sum of the squared distances of the samples to their centres.
    embedding_ : ndarray of n × embedding, or None
        F̂ of the training data; None where it is large for the memory budget (``transform`` gives
        it, also in parts).
    view_names_, view_widths_ : tuple
        The views in their order.
    history_ : list of dict
        One record per epoch: the loss, the contrast and the reconstruction by view.
    precision_ : str
        What ``auto`` came to.
    notes_ : list of str
        What was noticed in the data.
    n_features_in_ : int
        Number of features of all views together.

    Notes
    -----
    What differs from the reference code:

    - The state after the last epoch is the result. The reference scores every contrastive epoch
      against the true classes and reports the best one.
    - That scoring also ends its dropout after the first contrastive epoch, since nothing returns
      to training mode. This is the default here too, as a setting (`dropout_epochs`).
    - With fewer samples than `batch_size` all of them are one batch, and `neighbours` is bounded
      by the batch; the reference has no batch then, or fails.
    - Distances of rows that cannot be told apart are exactly 0, so that their shares are even and
      their gradients finite; in the reference they are rounding errors.
    - The networks learn in bf16 where that is fast, and k-means has 10 restarts in place of 100.

    A single view is contrasted with its own common feature.

    References
    ----------
    Weiqing Yan, Yuanyang Zhang, Chang Tang, Wujie Zhou, Weisi Lin: Anchor-Sharing and Clusterwise
    Contrastive Network for Multiview Representation Learning. IEEE Transactions on Neural Networks
    and Learning Systems, 2024. DOI 10.1109/TNNLS.2024.3357087.

    Examples
    --------
    >>> from dwcl import make_multiview
    >>> from dwcl.methods.accmvc import ACCMVC
    >>> data = make_multiview(120, 3, random_state=0)
    >>> model = ACCMVC(3, encoder=(64,), pretrain_epochs=5, epochs=5, random_state=0)
    >>> model.fit_transform(data).shape
    (120, 128)
    """

    method_name = "accmvc"

    def __init__(
        self,
        n_clusters: Count = 8,
        *,
        temperature: Positive = 0.5,
        anchors: Count = 64,
        neighbours: Count = 10,
        guard: Positive = 1e-10,
        dropout: Share = 0.1,
        dropout_epochs: CountOrNone | None = 1,
        encoder: Widths = (500, 500, 2000),
        decoder: Widths | None = None,
        latent: Count = 512,
        embedding: Count = 128,
        pretrain_epochs: CountOrNone = 200,
        epochs: CountOrNone = 50,
        batch_size: Count = 256,
        learning_rate: Positive = 3e-4,
        scaling: str | dict[str, str] = "minmax",
        n_init: Count = 10,
        memory_budget: Positive = 2.0,
        precision: PrecisionChoice = "auto",
        device: str = "auto",
        threads: Count | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.temperature = temperature
        self.anchors = anchors
        self.neighbours = neighbours
        self.guard = guard
        self.dropout = dropout
        self.dropout_epochs = dropout_epochs
        self.encoder = encoder
        self.decoder = decoder
        self.latent = latent
        self.embedding = embedding
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
        return AnchorNetworks(
            widths,
            encoder=self.encoder,
            latent=self.latent,
            decoder=tuple(reversed(self.encoder)) if self.decoder is None else self.decoder,
            embedding=self.embedding,
            anchors=self.anchors,
            generators=generators,
        )

    def _total_epochs(self) -> int:
        return self.pretrain_epochs + self.epochs

    def _represent(self, networks: nn.Module, xs: list[Tensor]) -> list[Tensor]:
        views = cast(AnchorNetworks, networks)
        return [views.fuse(views.encode(xs))]

    def _learn(self, run: Run) -> dict[str, Any]:
        networks = cast(AnchorNetworks, run.networks)
        run.trainer.phase(
            "pretrain", self.pretrain_epochs, partial(reconstruct, networks), last_batch="drop"
        )
        run.trainer.phase(
            "contrast",
            self.epochs,
            partial(self._contrast, run),
            refresh=self._dropout_of,
            last_batch="drop",
        )
        return {}

    # -- the parts ---------------------------------------------------------------------------------

    def loss(
        self, networks: AnchorNetworks, views: Sequence[Tensor], kept: Tensor | None = None
    ) -> LossTerms:
        """Σ contrast with the common feature + Σ reconstruction, for one batch.

        Parameters
        ----------
        networks : AnchorNetworks
            In training mode.
        views : sequence of V Tensor, b × d_v
            The batch.
        kept : Tensor, b × V·latent, optional
            Factors of dropout; see :meth:`AnchorNetworks.fuse`.
        """
        hs = networks.encode(views)
        common = networks.fuse(hs, kept)
        pairs = [(v, len(hs)) for v in range(len(hs))]
        rows = damped_infonce(
            [*networks.project(hs), common], pairs, self.temperature, self._shares(common)
        )  # V × 2b
        contrast = rows.mean(dim=1)
        by_view = reconstruction(views, networks.decode(hs))
        return LossTerms(
            contrast.sum() + by_view.sum(), {"contrast": contrast, "reconstruction": by_view}
        )

    def _shares(self, common: Tensor) -> Tensor:
        """P of a batch, with no more neighbours than it has."""
        most = min(self.neighbours, len(common) - 1)
        if most == 0:  # a sample alone
            return common.new_zeros(1, 1)
        return neighbour_shares(common, most, guard=self.guard)

    def _contrast(self, run: Run, batch: Batch, *, dropout: float) -> LossTerms:
        kept = self._kept_of(run, batch, dropout) if dropout else None
        return self.loss(cast(AnchorNetworks, run.networks), batch.views, kept)

    def _dropout_of(self, epoch: int) -> dict[str, Any]:
        """Say how much is left out in an epoch."""
        active = self.dropout_epochs is None or epoch <= self.dropout_epochs
        return {"dropout": self.dropout if active else 0.0}

    def _kept_of(self, run: Run, batch: Batch, dropout: float) -> Tensor:
        """Draw what is kept in a step (b × V·latent), each view's part by its name."""
        parts = [
            torch.empty(len(batch), self.latent).bernoulli_(
                1 - dropout, generator=run.trainer.stream(f"dropout-{name}")
            )
            for name in run.view_names
        ]
        return torch.cat(parts, dim=1).to(batch.views[0].device) / (1 - dropout)


class AnchorNetworks(AutoEncoders):
    """An auto-encoder for each of V views; one head for all; anchors and the common feature.

    Parameters
    ----------
    widths, encoder, decoder, latent, generators
        As for :class:`~dwcl.nn.AutoEncoders`.
    embedding : int
        Width of Ĥ, the head's output, and of F̂, the common feature.
    anchors : int
        Number of anchors.
    """

    def __init__(
        self,
        widths: Sequence[int],
        *,
        encoder: Sequence[int],
        latent: int,
        decoder: Sequence[int],
        embedding: int,
        anchors: int,
        generators: Sequence[torch.Generator],
    ) -> None:
        super().__init__(
            widths, encoder=encoder, latent=latent, decoder=decoder, generators=generators
        )
        joint, shared = latent * len(widths), joint_generator(generators)
        self.head = perceptron((latent, embedding), shared)
        self.to_anchors = perceptron((joint, anchors), shared, bias=False)
        self.from_anchors = perceptron((anchors, joint), shared, bias=False)
        self.common = perceptron((joint, embedding), shared)
        # Parts that belong to a view begin as they would in any other order of the views.
        for layers, side in ((self.to_anchors, 1), (self.from_anchors, 0), (self.common, 1)):
            _draw_by_view(cast(nn.Linear, layers[0]).weight, side, generators)

    def project(self, hs: Sequence[Tensor]) -> list[Tensor]:
        """H_v (b × latent) → Ĥ_v (b × embedding), rows of length 1."""
        rows = functional.normalize(self.head(torch.cat(list(hs))), dim=1)
        return list(rows.chunk(len(hs)))

    def anchor_shares(self, joint: Tensor) -> Tensor:
        """Shares (b × anchors) of samples (b × V·latent) in the anchors; rows sum to 1."""
        shares: Tensor = self.to_anchors(joint).softmax(dim=1)
        return shares

    def fuse(self, hs: Sequence[Tensor], kept: Tensor | None = None) -> Tensor:
        """H_v (b × latent each) → F̂ (b × embedding), rows of length 1.

        Parameters
        ----------
        hs : sequence of V Tensor, b × latent
            Codes of the views.
        kept : Tensor, b × V·latent, optional
            Factors of what the anchors give back: dropout.
        """
        joint = torch.cat(list(hs), dim=1)
        given_back = self.from_anchors(self.anchor_shares(joint))
        if kept is not None:
            given_back = given_back * kept
        return functional.normalize(self.common(joint + given_back), dim=1)


def _draw_by_view(weight: Tensor, side: int, generators: Sequence[torch.Generator]) -> None:
    """Draw the start values of a weight for all views, each view's part by its own generator."""
    if weight.is_meta:
        return
    bound = 1 / math.sqrt(weight.shape[1])
    with torch.no_grad():
        for part, generator in zip(weight.chunk(len(generators), side), generators, strict=True):
            part.uniform_(-bound, bound, generator=generator)
