r"""Dual contrastive calibration for multi-view clustering."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Annotated, Any, Literal, TypeAlias, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from dwcl.clustering.soft import mean_assignment
from dwcl.losses import calibration, label_graphs, reconstruction, survivors
from dwcl.methods.base import Run
from dwcl.methods.finetuning import FinetuneLoss, finetune
from dwcl.methods.pretraining import reconstruct
from dwcl.methods.settings import Count, CountOrNone, Positive, Widths
from dwcl.methods.soft import SoftClusterer
from dwcl.nn import LevelNetworks, PrecisionChoice
from dwcl.training.batches import Batch
from dwcl.training.loop import LossTerms

Threshold: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class DealMVC(SoftClusterer):
    r"""Dual Contrastive Calibration for Multi-View Clustering (DealMVC).

    Some papers cite it as "DualMVC". The usual contrast of views pushes a sample away from all
    others, those of its own cluster included. Here the soft assignments say which samples belong
    together, and the similarities of features are calibrated by that: between every two views,
    and among the mean features of all views.

    Networks are those of :class:`~dwcl.methods.mflvc.MFLVC`, auto-encoders with codes :math:`H^v`
    and two shared heads that give unit rows :math:`\hat H^v` and soft assignments :math:`Q^v`;
    so are pre-training, fine-tuning and labels. The phase between the two of them minimises

    .. math::

        L = \sum_{v=1}^{V} \mathrm{MSE}(X^v, \hat X^v)
            + \sum_{v<w} C(\hat H^v, \hat H^w, W^{vw}) + C(F, F, W)
            + \sum_{(v,w)} \frac{1}{b^2} \lVert W - W^{vw} \rVert^2 .

    The calibration (:func:`dwcl.losses.calibration`) compares the similarities of all samples of a
    batch, as probabilities, with a graph of the samples (:func:`dwcl.losses.label_graphs`):

    .. math::

        C(A, B, W) = -\frac1b \sum_{i,j} W_{ij} \log (P_{ij} + 10^{-7}), \qquad
            P_{ij} = \frac{e^{\langle a_i, b_j \rangle}}{\sum_l e^{\langle a_i, b_l \rangle}} .

    The graph :math:`W^{vw}` has :math:`G_{ij} = \langle q^v_i, q^w_j \rangle` where that reaches
    the threshold θ, else 0, and 1 on the diagonal, its rows divided by their sums. The fused
    feature :math:`F = \sum_v \omega_v \hat H^v` keeps its length; W is the graph of its own
    assignments :math:`Q(F)`, for which the label head reads F as if it were a code. In the t-th
    batch of an epoch :math:`\omega_v = V^{-(t+1)}` (see Notes). A sample's cluster is the greatest
    entry of :math:`\frac1V \sum_v Q^v_i`: the fused feature has no part in it.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters k.
    threshold : float, default=0.8
        θ, at most 1.
    fusion_weights : {"decay", "uniform"}, default="decay"
        Weights ω of the views in F: those of the reference, which fade in each epoch, or 1/V.
    consistency_pairs : {"first", "all"}, default="first"
        The pairs of the last term: the first V of them in the order (1, 2), (1, 3), …, as in the
        code, or all. For up to three views these are the same.
    detach : bool, default=False
        Whether the graphs are constants in C. If not, C also teaches the assignments.
    finetune_loss : {"double-softmax", "log"}, default="double-softmax"
        Loss of the fine-tuning; see :class:`~dwcl.methods.mflvc.MFLVC`.
    encoder : tuple of int, default=(500, 500, 2000)
        Hidden widths of the encoders.
    decoder : tuple of int or None, default=None
        Hidden widths of the decoders; None mirrors the encoder.
    latent : int, default=512
        Width of H and of Ĥ, which must be the same, as the label head reads both H and F.
    pretrain_epochs, epochs : int, default=300, 100
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
    embedding_ : ndarray of n × V·latent, or None
        The features Ĥ of the views, joined; None where they are large for the memory budget
        (``transform`` gives them, also in parts).
    pseudo_labels_ : dict of str to ndarray
        The clusters of k-means in each view that the fine-tuning began from; empty without one.
    view_agreement_ : list of list of float, V × V
        Share of the samples that two views, each by its own assignments, put into the same
        cluster. Nothing but the graphs brings the names of clusters in line between views: where
        it is low, the mean of their assignments means little.
    view_names_, view_widths_ : tuple
        The views in their order.
    history_ : list of dict
        One record per epoch, with the losses: ``reconstruction`` by view, ``contrast`` (C of two
        views) and ``consistency`` by pair, ``global_contrast``; ``survivors``, the share of other
        samples that the threshold leaves in the graphs, by pair and at last for W; ``pseudo_label``
        by view and ``agreement`` by pair during the fine-tuning. At last one record with that of
        the end.
    precision_ : str
        What ``auto`` came to.
    notes_ : list of str
        What was noticed in the data.
    n_features_in_ : int
        Number of features of all views together.

    Notes
    -----
    What differs from the reference code, and what one should know of it:

    - The reference fuses views by weights from two small networks that never learn: their
      optimisers are not called. With the networks as they are drawn, each batch multiplies the
      weights by nearly 1/V, and only the next epoch begins anew. Here it is exactly 1/V, and the
      networks are left out, with another head that has no effect. So F fades within an epoch, and
      the global term with it, to the constant log b; what was meant is nearer to ``"uniform"``.
      Results should say which of the two they were made with.
    - While no two samples reach the threshold (``survivors`` 0), the graphs are the identity: C is
      a contrast without temperature, and the label head learns nothing before the fine-tuning.
    - With ``detach`` the last term still teaches the assignments: through the graphs alone it can.
    - Of two views the rows of C are the first one's samples, so the order of the views matters.
    - Data of fewer than 256 samples end in a division by zero there, and are one batch here. Such
      data, and those of a few batches, give few steps: the epochs are the reference's all the
      same; a smaller ``batch_size`` makes steps, and more epochs do.
    - A single view is accepted: what is left is the global term, and the fine-tuning.

    References
    ----------
    X. Yang, J. Jin, S. Wang, K. Liang, Y. Liu, Y. Wen, S. Liu, S. Zhou, X. Liu, E. Zhu: DealMVC:
    dual contrastive calibration for multi-view clustering. ACM Multimedia 2023, pp. 337–346.

    Examples
    --------
    >>> from dwcl import make_multiview
    >>> from dwcl.methods.dealmvc import DealMVC
    >>> data = make_multiview(120, 3, random_state=0)
    >>> model = DealMVC(3, pretrain_epochs=2, epochs=2, finetune_epochs=2, random_state=0)
    >>> model.fit_predict(data).shape
    (120,)
    """

    method_name = "dealmvc"
    saved_results = ("view_agreement_",)

    def __init__(
        self,
        n_clusters: Count = 8,
        *,
        threshold: Threshold = 0.8,
        fusion_weights: Literal["decay", "uniform"] = "decay",
        consistency_pairs: Literal["first", "all"] = "first",
        detach: bool = False,
        finetune_loss: FinetuneLoss = "double-softmax",
        encoder: Widths = (500, 500, 2000),
        decoder: Widths | None = None,
        latent: Count = 512,
        pretrain_epochs: CountOrNone = 300,
        epochs: CountOrNone = 100,
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
        self.threshold = threshold
        self.fusion_weights = fusion_weights
        self.consistency_pairs = consistency_pairs
        self.detach = detach
        self.finetune_loss = finetune_loss
        self.encoder = encoder
        self.decoder = decoder
        self.latent = latent
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
            embedding=self.latent,
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

        def loss(batch: Batch) -> LossTerms:
            weight = self.fusion_weight(len(batch.views), run.trainer.step)
            return self.calibrate(networks, weight, batch)

        first, last_batch = partial(reconstruct, networks), self.last_batch
        run.trainer.phase("pretrain", self.pretrain_epochs, first, last_batch=last_batch)
        run.trainer.phase("calibrate", self.epochs, loss, last_batch=last_batch)
        return finetune(run, self.finetune_epochs, n_init=self.n_init, loss=self.finetune_loss)

    # -- the objective -----------------------------------------------------------------------------

    def fusion_weight(self, n_views: int, step: int) -> float:
        """Weight ω of each of V views in the t-th batch of an epoch, t from 1."""
        return float(n_views) ** -(step + 1 if self.fusion_weights == "decay" else 1)

    def calibrate(self, networks: LevelNetworks, weight: float, batch: Batch) -> LossTerms:
        """Σ reconstruction + calibration by pairs and of the whole + consistency, for one batch."""
        hs = networks.encode(batch.views)
        by_view = reconstruction(batch.views, networks.decode(hs))
        zs = networks.project(hs)
        fused = weight * torch.stack(zs).sum(0)
        qs = networks.assign([*hs, fused])
        # The fused feature and itself is one more pair, the last: all pairs are one product.
        pairs = [*combinations(range(len(zs)), 2), (len(zs), len(zs))]
        graphs = label_graphs(qs, pairs, self.threshold)  # (P + 1) × b × b
        wanted = graphs.detach() if self.detach else graphs
        contrast = calibration([*zs, fused], pairs, wanted).mean(dim=1)  # P + 1
        parts = {
            "reconstruction": by_view,
            "global_contrast": contrast[-1],
            "survivors": survivors(graphs),
        }
        total = by_view.sum() + contrast.sum()
        if len(pairs) > 1:
            compared = len(pairs) - 1
            if self.consistency_pairs == "first":
                compared = min(compared, len(zs))
            consistency = (graphs[-1] - graphs[:compared]).square().mean(dim=(1, 2))
            parts |= {"contrast": contrast[:-1], "consistency": consistency}
            total = total + consistency.sum()
        return LossTerms(total, parts)
