r"""k-means on the code of the best view: what auto-encoders make of one view alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from dwcl.methods.base import Run
from dwcl.methods.best_view import BestViewClusterer, keep_choice
from dwcl.methods.pretraining import reconstruct
from dwcl.methods.settings import AtLeastTwo, Count, CountOrNone, Positive, Widths
from dwcl.nn import AutoEncoders, PrecisionChoice


class BSV(BestViewClusterer):
    r"""Best Single View, a yardstick: k-means on the code of one auto-encoder.

    It is DWCL without its contrastive half. Each view v has an auto-encoder with code :math:`H^v`,
    and all of them learn to reconstruct,

    .. math::

        L = \sum_{v=1}^{V} \mathrm{MSE}(X^v, \hat X^v).

    Then each :math:`H^v` is clustered by k-means, and the view whose clusters have the highest mean
    silhouette is the best one, B, chosen without labels. The clusters are those of :math:`H^B`;
    nothing of the other views is in them.

    Notes
    -----
    - Networks, epochs, batches and randomness are those of :class:`~dwcl.methods.dwcl.DWCL`: with
      the same settings and seed the clusters are its ``baseline_labels_["bsv"]``.
    - The literature also gives this name to the view that scores best by the labels. Such a number
      cannot be had where there are no labels, and flatters the yardstick; here the silhouette
      decides.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters k. One is allowed, as everywhere in scikit-learn.
    encoder : tuple of int, default=(500, 500, 2000)
        Hidden widths of the encoders.
    decoder : tuple of int or None, default=None
        Hidden widths of the decoders; None mirrors the encoder.
    latent : int, default=512
        Width of H.
    pretrain_epochs : int, default=100
        Epochs of reconstruction, which here are all.
    batch_size : int, default=128
        The last batch of an epoch may be short.
    learning_rate : float, default=3e-4
        Of Adam.
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
    cluster_centers_ : ndarray of k × latent
        Centres in H of the best view.
    inertia_ : float
        Sum of the squared distances of the samples to their centres.
    embedding_ : ndarray of n × latent, or None
        H of the best view for the training data; None where it is large for the memory budget
        (``transform`` gives it, also in parts).
    best_view_ : str
        The view with the highest mean silhouette.
    view_quality_ : dict of str to float
        Mean silhouette of each view.
    assessments_ : list of Assessment
        The one assessment of the views, with the clusters of each.
    view_names_, view_widths_ : tuple
        The views in their order.
    history_ : list of dict
        One record per epoch (losses), then that of the assessment (qualities, agreements, best
        view).
    precision_ : str
        What ``auto`` came to.
    notes_ : list of str
        What was noticed in the data.
    n_features_in_ : int
        Number of features of all views together.

    Examples
    --------
    >>> from dwcl import make_multiview
    >>> from dwcl.methods.bsv import BSV
    >>> data = make_multiview(120, 3, random_state=0)
    >>> model = BSV(3, encoder=(32,), latent=16, pretrain_epochs=5, random_state=0)
    >>> model.fit(data).best_view_
    'view1'
    """

    method_name = "bsv"

    def __init__(
        self,
        n_clusters: Count = 8,
        *,
        encoder: Widths = (500, 500, 2000),
        decoder: Widths | None = None,
        latent: Count = 512,
        pretrain_epochs: CountOrNone = 100,
        batch_size: Count = 128,
        learning_rate: Positive = 3e-4,
        scaling: str | dict[str, str] = "minmax",
        n_init: Count = 10,
        silhouette_budget: AtLeastTwo = 20_000,
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
        self.pretrain_epochs = pretrain_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.scaling = scaling
        self.n_init = n_init
        self.silhouette_budget = silhouette_budget
        self.memory_budget = memory_budget
        self.precision = precision
        self.device = device
        self.threads = threads
        self.random_state = random_state

    def _build(self, widths: Sequence[int], generators: Sequence[torch.Generator]) -> nn.Module:
        networks = AutoEncoders(
            widths,
            encoder=self.encoder,
            latent=self.latent,
            decoder=tuple(reversed(self.encoder)) if self.decoder is None else self.decoder,
            generators=generators,
        )
        return keep_choice(networks)

    def _total_epochs(self) -> int:
        return self.pretrain_epochs

    def _learn(self, run: Run) -> dict[str, Any]:
        networks = cast(AutoEncoders, run.networks)
        run.trainer.phase("pretrain", self.pretrain_epochs, partial(reconstruct, networks))
        return self._choose(run)

    def _represent_view(self, networks: nn.Module, view: int, x: Tensor) -> Tensor:
        code: Tensor = cast(AutoEncoders, networks).each()[view].encoder(x)
        return code
