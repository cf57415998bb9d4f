r"""Deep multi-view clustering by contrasting cluster assignments (CVCL)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Any, Literal, TypeAlias, cast

import torch
from torch import Tensor, nn

from dwcl.clustering.soft import mean_assignment, sharpened
from dwcl.data.multiview import MultiView
from dwcl.data.profiles import Profiles
from dwcl.data.scaling import Scaling
from dwcl.errors import DataError
from dwcl.losses import Similarity, cluster_contrast, negative_entropy, reconstruction
from dwcl.methods.base import Run
from dwcl.methods.pretraining import reconstruct
from dwcl.methods.settings import Count, CountOrNone, NotNegative, Positive, Widths
from dwcl.methods.soft import SoftClusterer
from dwcl.nn import AutoEncoders, PrecisionChoice, joint_generator, perceptron
from dwcl.training.batches import Batch
from dwcl.training.features import Forward, embedded_blocks
from dwcl.training.loop import LossTerms

SimilarityChoice: TypeAlias = Literal["auto", "dot", "cosine"]

LEAST_SAMPLES_PER_CLUSTER = 10
"""In batches with so many samples per cluster or more, ``auto`` takes the cosine."""


class CVCL(SoftClusterer):
    r"""Deep multi-view clustering by contrasting cluster assignments.

    Each view v has an auto-encoder with code :math:`H^v`; one classifier, the same for all views,
    makes soft assignments :math:`Q^v` of the codes. After pre-training on reconstruction it is the
    clusters that are contrasted, not the samples. A cluster is described by its column: the shares
    that the samples of a batch have in it, sharpened to

    .. math::

        T^v_{ik} = \frac{(Q^v_{ik})^2 / f^v_k}{\sum_l (Q^v_{il})^2 / f^v_l}, \qquad
        f^v_k = \sum_i Q^v_{ik}.

    The columns of the same cluster in two views attract each other, all other columns of both
    views are pushed away, and clusters of equal size are preferred:

    .. math::

        L = \sum_{v=1}^{V} \mathrm{MSE}(X^v, \hat X^v) + \sum_{v<w} \Big(
            \frac{\lambda}{2k} \sum_{a=1}^{2k} \ell_a(T^v, T^w)
            + \beta \big( \pi^v \cdot \log \pi^v + \pi^w \cdot \log \pi^w \big) \Big)

    with the losses :math:`\ell_a` of the columns (:func:`dwcl.losses.cluster_contrast`) and the
    sizes of the clusters :math:`\pi^v_k = \tfrac1b \sum_i T^v_{ik}` in the batch. Gradients flow
    through all of T. A sample's cluster is the greatest entry of the mean of its plain
    :math:`Q^v` over the views.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters k.
    contrast_weight : float, default=0.01
        λ. Small, because errors of reconstruction are.
    entropy_weight : float, default=0.01
        β.
    temperature : float, default=1.0
        Of the contrast.
    similarity : {"auto", "dot", "cosine"}, default="auto"
        How columns are compared. The dot product grows with the samples of a cluster in a batch,
        as if the temperature fell; ``auto`` takes the cosine from ten of them on, ``dot`` below.
    encoder : tuple of int, default=(256, 512)
        Hidden widths of the encoders; decoders mirror them.
    latent : int, default=2000
        Width of the code.
    classifier : int, default=1024
        Hidden width of the classifier.
    pretrain_epochs : int, default=200
        Epochs on reconstruction alone.
    epochs : int, default=100
        Epochs on the whole objective.
    batch_size : int, default=100
        A last batch of an epoch that is short is left out.
    learning_rate : float, default=5e-4
        Of Adam.
    scaling : str or dict, default="minmax"
        ``minmax``, ``standard``, ``row-l2``, ``none`` or ``auto``, for all views or by view.
        Decoders cannot give negative values: where a scaling leaves such, ``notes_`` says so.
    memory_budget : float, default=2.0
        GB that data and features may take in memory. Larger data are read by batches, in an order
        that a disk can serve; larger features are kept in files meanwhile.
    precision : {"auto", "fp32", "bf16"}, default="auto"
        Arithmetic of the layers while they learn; ``auto`` takes bf16 where the processor has it
        natively. Weights, losses and assignments are in fp32.
    device : str, default="auto"
        ``auto``, ``cpu``, ``cuda``, …
    threads : int or None, default=None
        Threads of the processor; None leaves PyTorch's number.
    random_state : int, numpy RandomState or Generator, or None, default=None
        The source of all randomness.

    Attributes
    ----------
    labels_ : ndarray of n
        Cluster of each sample. Some of the k may be empty.
    embedding_ : ndarray of n × V·latent, or None
        The joined codes of the training data; None where they are large for the memory budget
        (``transform`` gives them, also in parts).
    view_agreement_ : dict of str to float
        Share of the samples that a view alone would put into the cluster of all views.
    empty_codes_ : dict of str to float
        Share of the samples whose code was all zeros after pre-training. Where it is large, the
        units of a view's encoder have died: a lower learning rate or another scaling may help.
    view_names_, view_widths_ : tuple
        The views in their order.
    history_ : list of dict
        One record per epoch, with the losses before any weight: ``reconstruction`` and ``entropy``
        of each view, ``contrast`` of each pair.
    precision_ : str
        What ``auto`` came to.
    notes_ : list of str
        What was noticed in the data.
    n_features_in_ : int
        Number of features of all views together.

    Notes
    -----
    What differs from the reference code:

    - It has widths, weights and the similarity per data set, found with the labels in sight (see
      the recipes). The defaults here are one choice for all data; the rule of ``auto`` agrees with
      every one of its data sets.
    - It scores only the samples of full batches. Here all samples get a cluster, in their order.
    - A cluster without any mass in a batch makes the loss no number there; here it counts as one
      with next to none.
    - Epochs of data with fewer samples than a batch have one batch; there they have none.

    At least two views are needed: clusters are learnt from their agreement alone.

    References
    ----------
    J. Chen, H. Mao, W. L. Woo, X. Peng: Deep multiview clustering by contrasting cluster
    assignments. ICCV 2023, pp. 16752–16761.

    Examples
    --------
    >>> from dwcl import make_multiview
    >>> from dwcl.methods.cvcl import CVCL
    >>> data = make_multiview(120, 3, random_state=0)
    >>> model = CVCL(3, encoder=(32,), latent=16, pretrain_epochs=5, epochs=5, random_state=0)
    >>> model.fit_predict(data).shape
    (120,)
    """

    method_name = "cvcl"
    saved_results = ("view_agreement_", "empty_codes_")

    def __init__(
        self,
        n_clusters: Count = 8,
        *,
        contrast_weight: Positive = 0.01,
        entropy_weight: NotNegative = 0.01,
        temperature: Positive = 1.0,
        similarity: SimilarityChoice = "auto",
        encoder: Widths = (256, 512),
        latent: Count = 2000,
        classifier: Count = 1024,
        pretrain_epochs: CountOrNone = 200,
        epochs: CountOrNone = 100,
        batch_size: Count = 100,
        learning_rate: Positive = 5e-4,
        scaling: str | dict[str, str] = "minmax",
        memory_budget: Positive = 2.0,
        precision: PrecisionChoice = "auto",
        device: str = "auto",
        threads: Count | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.contrast_weight = contrast_weight
        self.entropy_weight = entropy_weight
        self.temperature = temperature
        self.similarity = similarity
        self.encoder = encoder
        self.latent = latent
        self.classifier = classifier
        self.pretrain_epochs = pretrain_epochs
        self.epochs = epochs
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
        return AssigningNetworks(
            widths,
            encoder=self.encoder,
            latent=self.latent,
            classifier=self.classifier,
            n_clusters=self.n_clusters,
            generators=generators,
        )

    def _total_epochs(self) -> int:
        return self.pretrain_epochs + self.epochs

    def _represent(self, networks: nn.Module, xs: list[Tensor]) -> list[Tensor]:
        return cast(AssigningNetworks, networks).encode(xs)

    def _assign(self, networks: nn.Module, xs: list[Tensor]) -> Tensor:
        views = cast(AssigningNetworks, networks)
        return mean_assignment(views.assign(views.encode(xs)).unbind())

    def _check_consistency(self, data: MultiView) -> None:
        if data.n_views == 1:
            raise DataError(
                "The data have 1 view; CVCL learns clusters from the agreement of views alone and "
                "needs at least 2. Give another view, or use another method."
            )

    def _remarks(self, scaling: Scaling, profiles: Profiles) -> list[str]:
        negative = [
            name
            for name, kind in scaling.kinds.items()
            if kind == "standard" or (kind != "minmax" and (profiles[name].low < 0).any())
        ]
        return [
            f"View '{name}': scaling {scaling.kinds[name]} leaves negative values, which decoders "
            "that end in ReLU cannot give; minmax leaves none."
            for name in negative
        ]

    def _learn(self, run: Run) -> dict[str, Any]:
        networks = cast(AssigningNetworks, run.networks)
        train = partial(run.trainer.phase, last_batch="drop")
        train("pretrain", self.pretrain_epochs, partial(reconstruct, networks))
        empty = run.trainer.once("empty-codes", partial(_share_by_view, run, networks.are_empty))
        similarity = self._similarity(run.source.n_samples)
        train("contrast", self.epochs, partial(self.contrast, networks, similarity))
        return {
            "empty_codes_": empty,
            "view_agreement_": _share_by_view(run, networks.agree),
        }

    # -- the parts ---------------------------------------------------------------------------------

    def contrast(
        self, networks: AssigningNetworks, similarity: Similarity, batch: Batch
    ) -> LossTerms:
        """Σ reconstruction + λ · Σ contrast + β · Σ entropy over pairs, for one batch."""
        hs = networks.encode(batch.views)
        targets = sharpened(networks.assign(hs)).unbind()
        pairs = list(combinations(range(len(hs)), 2))
        by_column = cluster_contrast(targets, pairs, self.temperature, similarity=similarity)
        parts = {
            "reconstruction": reconstruction(batch.views, networks.decode(hs)),
            "contrast": by_column.mean(dim=1),  # by pair
            "entropy": negative_entropy(targets),  # by view
        }
        # Each view is in V − 1 pairs, and its entropy counts in each of them.
        of_pairs = (len(hs) - 1) * parts["entropy"].sum()
        total = (
            parts["reconstruction"].sum()
            + self.contrast_weight * parts["contrast"].sum()
            + self.entropy_weight * of_pairs
        )
        return LossTerms(total, parts)

    def _similarity(self, n_samples: int) -> Similarity:
        """Resolve ``auto``."""
        if self.similarity != "auto":
            return self.similarity
        samples = min(self.batch_size, n_samples)
        return "cosine" if samples >= LEAST_SAMPLES_PER_CLUSTER * self.n_clusters else "dot"


class AssigningNetworks(AutoEncoders):
    """Auto-encoders with a ReLU at both ends, and one classifier for the codes of all views.

    Parameters
    ----------
    widths, encoder, latent, generators
        As for :class:`~dwcl.nn.AutoEncoders`; decoders mirror the encoders.
    classifier : int
        Hidden width of the classifier.
    n_clusters : int
        k, the number of its outputs.
    """

    def __init__(
        self,
        widths: Sequence[int],
        *,
        encoder: Sequence[int],
        latent: int,
        classifier: int,
        n_clusters: int,
        generators: Sequence[torch.Generator],
    ) -> None:
        mirrored = tuple(reversed(encoder))
        super().__init__(
            widths, encoder=encoder, latent=latent, decoder=mirrored, generators=generators
        )
        shared = joint_generator(generators)
        # With nothing between them two layers can do no more than one, but they learn otherwise.
        self.classifier = nn.Sequential(
            perceptron((latent, classifier), shared), perceptron((classifier, n_clusters), shared)
        )

    def encode(self, xs: Sequence[Tensor]) -> list[Tensor]:
        """X_v (b × d_v) → H_v (b × latent), not negative."""
        return [h.relu() for h in super().encode(xs)]

    def decode(self, hs: Sequence[Tensor]) -> list[Tensor]:
        """H_v (b × latent) → the reconstructed X_v (b × d_v), not negative."""
        return [x.relu() for x in super().decode(hs)]

    def assign(self, hs: Sequence[Tensor]) -> Tensor:
        """H_v (b × latent) → Q (V × b × k)."""
        logits: Tensor = self.classifier(torch.cat(list(hs)))  # one product for all views
        return logits.view(len(hs), -1, logits.shape[1]).softmax(dim=2)

    def are_empty(self, xs: Sequence[Tensor]) -> list[Tensor]:
        """Tell (b × V) which samples have a code of zeros."""
        return [torch.stack([(h == 0).all(dim=1) for h in self.encode(xs)], dim=1)]

    def agree(self, xs: Sequence[Tensor]) -> list[Tensor]:
        """Tell (b × V) which samples a view alone puts into the cluster of all views."""
        q = self.assign(self.encode(xs))
        return [(q.argmax(dim=2) == mean_assignment(q.unbind()).argmax(dim=1)).T]


def _share_by_view(run: Run, tell: Forward) -> dict[str, float]:
    """Share of the samples of which something holds in a view (b × V, as `tell` says)."""
    count = torch.stack([b.sum(0) for (b,) in embedded_blocks(run.networks, run.source, tell)])
    share = count.sum(0).double() / run.source.n_samples
    return dict(zip(run.view_names, share.tolist(), strict=True))
