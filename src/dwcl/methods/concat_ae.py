r"""k-means on the codes of all views joined: what auto-encoders come to without contrast."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from dwcl.clustering.tables import Table
from dwcl.methods.base import DeepMultiViewClusterer, Run
from dwcl.methods.pretraining import reconstruct
from dwcl.methods.settings import Count, CountOrNone, Positive, Widths
from dwcl.nn import AutoEncoders, PrecisionChoice

BLOCK_ROWS = 2**13


class ConcatAE(DeepMultiViewClusterer):
    r"""k-means on the joined codes of all auto-encoders, a yardstick without contrast.

    It is DWCL without its contrastive half, and with no choice of a view. Each view v has an
    auto-encoder with code :math:`H^v`, and all of them learn to reconstruct,

    .. math::

        L = \sum_{v=1}^{V} \mathrm{MSE}(X^v, \hat X^v).

    The clusters are those of k-means on :math:`H^1 \Vert \dots \Vert H^V` or, where the views are
    balanced, on

    .. math::

        \tilde H^1 \Vert \dots \Vert \tilde H^V, \qquad
        \tilde h_i^v = \frac{h_i^v - \bar h^v}{\sqrt{\mathrm{Var}(H^v)}}, \qquad
        \mathrm{Var}(H^v) = \frac1n \sum_i \lVert h_i^v - \bar h^v \rVert^2 ,

    where :math:`\bar h^v` is the mean of the view's codes.

    Notes
    -----
    - Networks, epochs, batches and randomness are those of :class:`~dwcl.methods.dwcl.DWCL`: with
      the same settings and seed and ``balance="none"``, the clusters are its
      ``baseline_labels_["concat-ae"]``.
    - Squared distances in joined codes add up over the views, so each view has a say in
      proportion to :math:`\mathrm{Var}(H^v)`. Nothing in the reconstruction holds that down: a code
      may be of any size that its decoder undoes, and wide or loosely scaled views come out with
      codes of several times the variance of others. Without balance one view, not always a good
      one, can decide the clusters nearly alone; with it each has the same say, the good and the
      noisy. Which is better depends on the data, and by much: the two have been measured up to 27
      points of accuracy apart. A comparison should say which of them it means.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters k. One is allowed, as everywhere in scikit-learn.
    balance : {"none", "variance"}, default="none"
        Whether the codes are joined as they are, or each view's are centred and brought to a
        total variance of 1 before. The figures for that are found on the training data and kept
        with the networks. A view whose codes are all the same is centred alone.
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
        Restarts of k-means.
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
    cluster_centers_ : ndarray of k × V·latent
        Centres in the joined codes.
    inertia_ : float
        Sum of the squared distances of the samples to their centres.
    embedding_ : ndarray of n × V·latent, or None
        The joined codes of the training data, balanced if that was asked for; None where they are
        large for the memory budget (``transform`` gives them, also in parts).
    view_names_, view_widths_ : tuple
        The views in their order.
    view_variances_ : dict of str to float
        Var(H) of each view as the networks made it: without balance, its say in the distances.
    history_ : list of dict
        One record per epoch (losses).
    precision_ : str
        What ``auto`` came to.
    notes_ : list of str
        What was noticed in the data.
    n_features_in_ : int
        Number of features of all views together.

    Examples
    --------
    >>> from dwcl import make_multiview
    >>> from dwcl.methods.concat_ae import ConcatAE
    >>> data = make_multiview(120, 3, random_state=0)
    >>> model = ConcatAE(3, encoder=(32,), latent=16, pretrain_epochs=5, random_state=0)
    >>> model.fit_predict(data).shape
    (120,)
    """

    method_name = "concat-ae"
    saved_results = ("view_variances_",)

    def __init__(
        self,
        n_clusters: Count = 8,
        *,
        balance: Literal["none", "variance"] = "none",
        encoder: Widths = (500, 500, 2000),
        decoder: Widths | None = None,
        latent: Count = 512,
        pretrain_epochs: CountOrNone = 100,
        batch_size: Count = 128,
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
        self.balance = balance
        self.encoder = encoder
        self.decoder = decoder
        self.latent = latent
        self.pretrain_epochs = pretrain_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.scaling = scaling
        self.n_init = n_init
        self.memory_budget = memory_budget
        self.precision = precision
        self.device = device
        self.threads = threads
        self.random_state = random_state

    def _build(self, widths: Sequence[int], generators: Sequence[torch.Generator]) -> nn.Module:
        return _BalancedAutoEncoders(
            widths,
            encoder=self.encoder,
            latent=self.latent,
            decoder=tuple(reversed(self.encoder)) if self.decoder is None else self.decoder,
            generators=generators,
        )

    def _total_epochs(self) -> int:
        return self.pretrain_epochs

    def _represent(self, networks: nn.Module, xs: list[Tensor]) -> list[Tensor]:
        return cast(_BalancedAutoEncoders, networks).codes(xs)

    def _find_centres(self, run: Run, features: Table) -> tuple[Tensor, float]:
        # By the stream of the yardstick inside DWCL, so that the two are one and the same.
        found = run.cluster(features, self.n_init, "concat-ae")
        return found.centres, found.inertia

    def _learn(self, run: Run) -> dict[str, Any]:
        networks = cast(_BalancedAutoEncoders, run.networks)
        run.trainer.phase("pretrain", self.pretrain_epochs, partial(reconstruct, networks))
        found = run.trainer.once("moments", partial(self._moments, run))
        variances: list[float] = found["variances"]
        if self.balance == "variance":
            networks.means.copy_(found["means"])
            factors = [1.0 if variance == 0 else variance**-0.5 for variance in variances]
            networks.factors.copy_(torch.tensor(factors))
        return {"view_variances_": dict(zip(run.view_names, variances, strict=True))}

    def _moments(self, run: Run) -> dict[str, Any]:
        """Find the mean (V × latent) and the total variance (V) of each view's codes."""
        networks = cast(_BalancedAutoEncoders, run.networks)
        with run.features(networks.encode) as hs:
            found = [mean_and_variance(h) for h in hs]
        means, variances = zip(*found, strict=True)
        return {"means": torch.stack(means), "variances": list(variances)}


class _BalancedAutoEncoders(AutoEncoders):
    """Auto-encoders with a mean (V × latent) and a factor (V) for their codes.

    Means of 0 and factors of 1, as they are at first, leave the codes as they are, bit for bit.
    """

    means: Tensor
    factors: Tensor

    def __init__(self, widths: Sequence[int], *, latent: int, **others: Any) -> None:
        super().__init__(widths, latent=latent, **others)
        self.register_buffer("means", torch.zeros(len(widths), latent, dtype=torch.float32))
        self.register_buffer("factors", torch.ones(len(widths), dtype=torch.float32))

    def codes(self, xs: Sequence[Tensor]) -> list[Tensor]:
        """X_v (b × d_v) → the balanced H_v (b × latent)."""
        hs = self.encode(xs)
        return [
            (h - mean) * factor
            for h, mean, factor in zip(hs, self.means, self.factors, strict=True)
        ]


def mean_and_variance(features: Table) -> tuple[Tensor, float]:
    """Return the mean of a table's rows (d) and their mean squared distance from it.

    By blocks and in double precision. A variance that is no more than the rounding of single
    precision is 0: rows that are all the same have none.
    """
    n, width = features.shape
    blocks = [slice(start, start + BLOCK_ROWS) for start in range(0, n, BLOCK_ROWS)]
    total = torch.zeros(width, dtype=torch.float64, device=features[:1].device)
    for block in blocks:
        total += features[block].double().sum(0)
    mean = total / n
    squares = sum(float((features[block].double() - mean).square().sum()) for block in blocks)
    variance = squares / n
    rounding = torch.finfo(torch.float32).eps ** 2 * float(mean.square().sum())
    return mean.float(), variance if variance > rounding else 0.0
