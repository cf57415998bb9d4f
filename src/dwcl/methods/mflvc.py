r"""Multi-level feature learning for contrastive multi-view clustering."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from dwcl.clustering.soft import mean_assignment
from dwcl.losses import cluster_contrast, infonce, negative_entropy, reconstruction
from dwcl.methods.base import Run
from dwcl.methods.finetuning import FinetuneLoss, finetune
from dwcl.methods.pretraining import reconstruct
from dwcl.methods.settings import Count, CountOrNone, Positive, Widths
from dwcl.methods.soft import SoftClusterer
from dwcl.nn import LevelNetworks, PrecisionChoice
from dwcl.training.batches import Batch
from dwcl.training.loop import LossTerms


class MFLVC(SoftClusterer):
    r"""Multi-level Feature Learning for Contrastive Multi-View Clustering (MFLVC).

    A code that has to rebuild its view keeps what is private to the view, which is a hindrance
    where views are to agree. So the two are learnt in different spaces. Each view v has an
    auto-encoder with code :math:`H^v`; on the codes stand two linear heads that all views share.
    One gives features :math:`\hat H^v` with rows of length 1, the other soft assignments
    :math:`Q^v` to the k clusters (softmax). After pre-training on reconstruction the heads are
    contrasted between every two views, features by samples and assignments by clusters:

    .. math::

        L = \sum_{v=1}^{V} \mathrm{MSE}(X^v, \hat X^v)
            + \sum_{v<w} \Big( \ell_{\tau_F}(\hat H^v, \hat H^w)
            + \ell_{\tau_L}(Q^{v\top}, Q^{w\top}) + E(Q^v) + E(Q^w) \Big)

    with the symmetric InfoNCE loss :math:`\ell_\tau` (:func:`dwcl.losses.infonce`), by cosines of
    the columns in the case of the assignments (:func:`dwcl.losses.cluster_contrast`), and with

    .. math::

        E(Q) = \log k + \sum_{c=1}^{k} \pi_c \log \pi_c, \qquad \pi_c = \frac1b \sum_i Q_{ic},

    which is 0 for clusters of equal size. At last k-means finds clusters in each view's features,
    columns scaled to [0, 1], and the assignments learn these: each view's clusters
    :math:`u^v` are named, anew in each step, by the one-to-one matching :math:`\sigma^v` with the
    view's labels at the time that agrees with them most often, and

    .. math::

        L_{\text{fine}} = \sum_{v=1}^{V} \frac1n \sum_i \Big( -Q^v_{i y^v_i}
            + \log \sum_c e^{Q^v_{ic}} \Big), \qquad y^v_i = \sigma^v(u^v_i).

    A sample's cluster is the greatest entry of :math:`\bar Q_i = \frac1V \sum_v Q^v_i`.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters k.
    temperature, label_temperature : float, default=0.5, 1.0
        :math:`\tau_F` and :math:`\tau_L`.
    entropy : {"pair", "view"}, default="pair"
        How often the E of a view counts: once in each of its V − 1 pairs, as in the code, or once,
        as in the paper. For two views that is the same.
    finetune_loss : {"double-softmax", "log"}, default="double-softmax"
        Loss of the fine-tuning: the one above, as in the code, or :math:`-\log Q^v_{i y^v_i}`, as
        in the paper.
    encoder : tuple of int, default=(500, 500, 2000)
        Hidden widths of the encoders.
    decoder : tuple of int or None, default=None
        Hidden widths of the decoders; None mirrors the encoder.
    latent, embedding : int, default=512, 128
        Widths of H and Ĥ.
    pretrain_epochs, epochs : int, default=200, 50
        Epochs on reconstruction alone, and on the whole objective.
    finetune_epochs : int, default=50
        Steps of the fine-tuning, each on all samples.
    last_batch : {"drop", "keep"}, default="drop"
        What becomes of the last batch of an epoch where it is short. The only one always stays.
    batch_size : int, default=256
        Data of fewer samples are one batch.
    learning_rate : float, default=3e-4
        Of Adam, which keeps its moments from phase to phase.
    scaling : str or dict, default="minmax"
        ``minmax``, ``standard``, ``row-l2``, ``none`` or ``auto``, for all views or by view.
    n_init : int, default=10
        Restarts of k-means. The reference has 100; ten are the default of every method here, since
        restarts beyond them cost more than they give.
    memory_budget : float, default=2.0
        GB that data and features may take in memory. Larger data are read by batches, in an order
        that a disk can serve; larger features are kept in files meanwhile, and clustered by
        mini-batches.
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
    embedding_ : ndarray of n × V·embedding, or None
        The features Ĥ of the views, joined; None where they are large for the memory budget
        (``transform`` gives them, also in parts).
    pseudo_labels_ : dict of str to ndarray
        The clusters of k-means in each view that the fine-tuning began from; empty without one.
    view_agreement_ : list of list of float, V × V
        Share of the samples that two views, each by its own assignments, put into the same
        cluster. Where it is low, the views name clusters differently, and the mean of their
        assignments means little.
    view_names_, view_widths_ : tuple
        The views in their order.
    history_ : list of dict
        One record per epoch, with the losses: ``reconstruction`` and ``balance`` (E) by view,
        ``contrast`` and ``label_contrast`` by pair, ``pseudo_label`` by view; and with the
        ``agreement`` by pair during the fine-tuning. At last one record with that of the end.
    precision_ : str
        What ``auto`` came to.
    notes_ : list of str
        What was noticed in the data.
    n_features_in_ : int
        Number of features of all views together.

    Notes
    -----
    What differs from the reference code:

    - Its losses ask for full batches, so data of fewer than 256 samples end in an error; here
      they are one batch. Such data, and those of a few batches, give few steps: 210 samples one
      in an epoch, where the 5,000 of MNIST-USPS give 19. The epochs are the reference's all the
      same; a smaller ``batch_size`` makes steps, and more epochs do.
    - The settings of its data sets go with seeds of their own, one for each, and its authors call
      them tuned beyond the paper: labels will have had a part in that. Seeds are no settings here,
      and the last state is the result.
    - Its k-means is not seeded.
    - A cluster without any mass leaves E finite.
    - Gradients that are not there move nothing: decoders and the feature head rest in the
      fine-tuning, where old versions of PyTorch let them drift for some steps by their moments.
    - A single view is accepted: without pairs there is reconstruction, and then fine-tuning by
      k-means of what a feature head that has learnt nothing makes of the codes.

    References
    ----------
    J. Xu, H. Tang, Y. Ren, L. Peng, X. Zhu, L. He: Multi-level feature learning for contrastive
    multi-view clustering. CVPR 2022, pp. 16051–16060.

    Examples
    --------
    >>> from dwcl import make_multiview
    >>> from dwcl.methods.mflvc import MFLVC
    >>> data = make_multiview(120, 3, random_state=0)
    >>> model = MFLVC(3, pretrain_epochs=2, epochs=2, finetune_epochs=2, random_state=0)
    >>> model.fit_predict(data).shape
    (120,)
    """

    method_name = "mflvc"
    saved_results = ("view_agreement_",)

    def __init__(
        self,
        n_clusters: Count = 8,
        *,
        temperature: Positive = 0.5,
        label_temperature: Positive = 1.0,
        entropy: Literal["pair", "view"] = "pair",
        finetune_loss: FinetuneLoss = "double-softmax",
        encoder: Widths = (500, 500, 2000),
        decoder: Widths | None = None,
        latent: Count = 512,
        embedding: Count = 128,
        pretrain_epochs: CountOrNone = 200,
        epochs: CountOrNone = 50,
        finetune_epochs: CountOrNone = 50,
        last_batch: Literal["drop", "keep"] = "drop",
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
        self.label_temperature = label_temperature
        self.entropy = entropy
        self.finetune_loss = finetune_loss
        self.encoder = encoder
        self.decoder = decoder
        self.latent = latent
        self.embedding = embedding
        self.pretrain_epochs = pretrain_epochs
        self.epochs = epochs
        self.finetune_epochs = finetune_epochs
        self.last_batch = last_batch
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
        return LevelNetworks(
            widths,
            encoder=self.encoder,
            latent=self.latent,
            decoder=tuple(reversed(self.encoder)) if self.decoder is None else self.decoder,
            embedding=self.embedding,
            n_clusters=self.n_clusters,
            generators=generators,
        )

    def _total_epochs(self) -> int:
        return self.pretrain_epochs + self.epochs + self.finetune_epochs

    def _represent(self, networks: nn.Module, xs: list[Tensor]) -> list[Tensor]:
        levels = cast(LevelNetworks, networks)
        return levels.project(levels.encode(xs))

    def _assign(self, networks: nn.Module, xs: list[Tensor]) -> Tensor:
        levels = cast(LevelNetworks, networks)
        return mean_assignment(levels.assign(levels.encode(xs)))

    def _learn(self, run: Run) -> dict[str, Any]:
        networks = cast(LevelNetworks, run.networks)
        first, second = partial(reconstruct, networks), partial(self.contrast, networks)
        run.trainer.phase("pretrain", self.pretrain_epochs, first, last_batch=self.last_batch)
        run.trainer.phase("contrast", self.epochs, second, last_batch=self.last_batch)
        return finetune(run, self.finetune_epochs, n_init=self.n_init, loss=self.finetune_loss)

    # -- the objective -----------------------------------------------------------------------------

    def contrast(self, networks: LevelNetworks, batch: Batch) -> LossTerms:
        """Σ reconstruction + Σ contrast of features and of labels, for one batch."""
        hs = networks.encode(batch.views)
        by_view = reconstruction(batch.views, networks.decode(hs))
        qs = networks.assign(hs)
        pairs = list(combinations(range(len(hs)), 2))
        balance = math.log(self.n_clusters) + negative_entropy(qs)
        times = 1 if self.entropy == "view" else len(hs) - 1
        parts = {"reconstruction": by_view, "balance": balance}
        total = by_view.sum() + times * balance.sum()
        if pairs:
            of_features = infonce(networks.project(hs), pairs, self.temperature).mean(dim=1)
            of_labels = cluster_contrast(qs, pairs, self.label_temperature).mean(dim=1)
            parts |= {"contrast": of_features, "label_contrast": of_labels}
            total = total + of_features.sum() + of_labels.sum()
        return LossTerms(total, parts)
