r"""Dual Contrastive Prediction: clusters of samples of which some views may be missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations, permutations
from typing import Any, Literal, TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from dwcl.data.multiview import MultiView
from dwcl.errors import DataError, SettingError
from dwcl.losses import mutual_information_loss, reconstruction
from dwcl.methods.base import DeepMultiViewClusterer, Run
from dwcl.methods.settings import Count, CountOrNone, NotNegative, Positive, Widths
from dwcl.nn import NormPerceptron, PrecisionChoice
from dwcl.training.batches import Batch, choose
from dwcl.training.loop import LossTerms

Mode: TypeAlias = Literal["core", "complete"]
"""Which views are compared and predict each other: all with the first one, or all with all."""

Pairs: TypeAlias = list[tuple[int, int]]


class DCP(DeepMultiViewClusterer):
    r"""Dual Contrastive Prediction.

    A code is a distribution over latent categories, which mean the same in all views. Two terms
    work towards the same end: the codes of two views shall tell as much as they can of each other,
    and each shall be predictable from the other. So a missing view can be put in place by what
    small networks predict of its code. Only samples that have all views train the networks;
    clusters are found for all of them.

    With the codes :math:`H^v` (rows of softmax, L wide), the predictors :math:`g_{v \to w}` and the
    pairs of views P, of which the first is :math:`(1, 2)`,

    .. math::

        \mathcal L = \frac{1}{a} \sum_{(v, w) \in P} \beta_{vw} \, I_\alpha(H^v, H^w)
            + \frac{\lambda_2}{\max(V - 2, 1)} \sum_{v=1}^{V} \mathrm{MSE}(X^v, \hat X^v)
            + \frac{\lambda_1}{a} \sum_{(v, w) \in P} \big( \mathrm{MSE}(g_{v \to w}(H^v), H^w)
            + \mathrm{MSE}(g_{w \to v}(H^w), H^v) \big)

    with the loss :math:`I_\alpha` of :func:`dwcl.losses.mutual_information_loss` (the negative
    mutual information less α − 1 times the entropies of the margins), :math:`\beta_{12} = 1` and
    the weight β of side pairs for all others. The last term counts from the epoch
    `prediction_start` on, and nothing in it is held fixed. P are the pairs with the first view, the
    core, and a = V − 1; or, in the complete mode, all pairs, and a = V (1 for two views). The
    clusters are those of k-means on :math:`H^1 \Vert \dots \Vert H^V`.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters k.
    mode : {"core", "complete"}, default="core"
        Which pairs of views are compared and predict each other: all with the first view, or all.
    entropy_weight : float, default=10.0
        α. Above 1 it keeps the codes from falling together.
    side_weight : float, default=0.1
        β, the weight of all pairs but that of the first two views.
    prediction_weight, reconstruction_weight : float, default=0.1
        λ₁ and λ₂.
    prediction_start : int, default=100
        How many epochs pass before prediction is learnt.
    hidden : tuple of int, default=(1024, 1024, 1024)
        Hidden widths of the encoders, and in turn of the decoders.
    latent : int, default=128
        L, the number of latent categories; more than there are clusters.
    predictor : tuple of int, default=(128, 256, 128, 256, 128)
        Hidden widths of the predictors.
    epochs : int, default=500
        Number of epochs.
    batch_size : int, default=256
        Mutual information is estimated by batches, for L² pairs of categories; small ones make it
        noisy.
    learning_rate : float, default=1e-4
        Of Adam.
    scaling : str or dict, default="minmax"
        ``minmax``, ``standard``, ``row-l2``, ``none`` or ``auto``, for all views or by view. The
        decoders give nothing below 0, so ``standard`` does not suit.
    n_init : int, default=10
        Restarts of k-means.
    memory_budget : float, default=2.0
        GB that data and features may take in memory; see :class:`dwcl.DWCL`.
    precision : {"auto", "fp32", "bf16"}, default="auto"
        Arithmetic of the layers while they learn; ``auto`` takes bf16 where the processor has it
        natively.
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
    embedding_ : ndarray of n × V·latent, or None
        The joined codes of the training data, predicted ones where views are missing; None where
        they are large for the memory budget.
    view_names_, view_widths_ : tuple
        The views in their order.
    history_ : list of dict
        One record per epoch: loss, its parts by pair (contrast), by view (reconstruction), and by
        predictor (prediction: 1→2, 2→1, 1→3, …; in the complete mode 1→2, 1→3, …, 2→1, …).
    precision_ : str
        What ``auto`` came to.
    notes_ : list of str
        What was noticed in the data.

    Notes
    -----
    A missing core view has the mean code that the sample's other views predict, and other missing
    views have what the core's code, its own or that one, predicts. In the complete mode a missing
    view has the mean of what all views at hand predict. The order of views counts: the first is
    the core.

    What differs from the reference code:

    * There the last batch of an epoch is left out even if it is full, so that 256 samples or fewer
      train nothing. Here a short last batch is left out, unless it is the only one.
    * There the sum of reconstructions is divided by V − 2, which is 0 for two views in the code
      for several views. Here two views follow the code for two views in either mode.
    * There, with two views, gaps of the second view alone are not filled. Here each view's are.
    * There the core mode makes predictors between other views, too, which nothing uses.
    * A single view is reconstructed and nothing else.
    * There views come in the units of their files, or are brought to [0, 1] by the extremes of the
      whole view; here column by column, unless `scaling` says otherwise.

    References
    ----------
    Yijie Lin, Yuanbiao Gou, Xiaotian Liu, Jinfeng Bai, Jiancheng Lv, Xi Peng: Dual Contrastive
    Prediction for Incomplete Multi-View Representation Learning. IEEE TPAMI 45(4), 2023.

    Examples
    --------
    >>> from dwcl import make_multiview
    >>> from dwcl.data.synthetic import drop_views
    >>> from dwcl.methods.dcp import DCP
    >>> data = drop_views(make_multiview(120, 3, random_state=0), 0.3)
    >>> model = DCP(3, hidden=(32,), latent=8, predictor=(16,), epochs=2, random_state=0)
    >>> model.fit_predict(data).shape
    (120,)
    """

    method_name = "dcp"
    accepts_missing = True

    def __init__(
        self,
        n_clusters: Count = 8,
        *,
        mode: Mode = "core",
        entropy_weight: NotNegative = 10.0,
        side_weight: NotNegative = 0.1,
        prediction_weight: NotNegative = 0.1,
        reconstruction_weight: NotNegative = 0.1,
        prediction_start: CountOrNone = 100,
        hidden: Widths = (1024, 1024, 1024),
        latent: Count = 128,
        predictor: Widths = (128, 256, 128, 256, 128),
        epochs: CountOrNone = 500,
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
        self.mode = mode
        self.entropy_weight = entropy_weight
        self.side_weight = side_weight
        self.prediction_weight = prediction_weight
        self.reconstruction_weight = reconstruction_weight
        self.prediction_start = prediction_start
        self.hidden = hidden
        self.latent = latent
        self.predictor = predictor
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
        return _Networks(
            widths,
            hidden=self.hidden,
            latent=self.latent,
            predictor=self.predictor,
            routes=routes(len(widths), self.mode),
            generators=generators,
        )

    def _total_epochs(self) -> int:
        return self.epochs

    def _represent(self, networks: nn.Module, xs: list[Tensor]) -> list[Tensor]:
        views = cast(_Networks, networks)
        missing = torch.stack([x.isnan().all(dim=1) for x in xs], dim=1)  # b × V
        if not missing.any():
            return views.encode(xs)
        # In evaluation mode rows have no influence on each other, so anything may stand in.
        codes = views.encode([x.nan_to_num(nan=0.0) for x in xs])
        return self._filled(views, codes, missing)

    def _widest_features(self, networks: nn.Module, xs: list[Tensor]) -> list[Tensor]:
        return cast(_Networks, networks).encode(xs)  # none is missing there, and none looked for

    def _check_consistency(self, data: MultiView) -> None:
        if not data.observed.all(axis=1).any():
            raise DataError(
                f"None of the {data.n_samples} samples has all {data.n_views} views, and DCP "
                "learns from such samples alone. Leave out a view that many samples lack, or take "
                "another method that accepts missing views."
            )
        if data.n_views == 1 and self.reconstruction_weight == 0 and self.epochs > 0:
            raise SettingError(
                "Nothing is left to learn: the data have 1 view, so that there is nothing to "
                "compare, and reconstruction_weight is 0. Raise it above 0."
            )

    def _learn(self, run: Run) -> dict[str, Any]:
        networks = cast(_Networks, run.networks)
        complete = run.observed.all(dim=1)
        source = None if complete.all() else choose(run.source, complete.nonzero()[:, 0])
        # The optimiser goes through both phases; a predictor without gradients is passed by.
        before = min(self.prediction_start, self.epochs)
        for name, epochs, predicts in (
            ("contrast", before, False),
            ("prediction", self.epochs - before, True),
        ):
            loss = partial(self.loss, networks, predicts=predicts)
            run.trainer.phase(name, epochs, loss, source=source, last_batch="drop")
        return {}

    # -- the parts ---------------------------------------------------------------------------------

    def loss(self, networks: _Networks, batch: Batch, *, predicts: bool) -> LossTerms:
        """Contrast, reconstruction and, where it `predicts` yet, prediction for one batch."""
        n_views = len(batch.views)
        codes = networks.encode(batch.views)
        by_view = reconstruction(batch.views, networks.decode(codes))
        parts = {"reconstruction": by_view}
        total = self.reconstruction_weight / max(n_views - 2, 1) * by_view.sum()
        if n_views == 1:
            return LossTerms(total, parts)
        pairs, divisor = compared(n_views, self.mode)
        by_pair = mutual_information_loss(codes, pairs, self.entropy_weight)
        contrast = by_pair[0] + self.side_weight * by_pair[1:].sum()
        total = total + contrast / divisor
        # Until then predictors look on: what they normalise by follows the codes.
        with torch.set_grad_enabled(predicts and torch.is_grad_enabled()):
            by_route = torch.stack(
                [
                    functional.mse_loss(networks.predict(v, w, codes[v]), codes[w])
                    for v, w in networks.routes
                ]
            )
        if predicts:
            total = total + self.prediction_weight / divisor * by_route.sum()
        return LossTerms(total, parts | {"contrast": by_pair, "prediction": by_route})

    def _filled(self, networks: _Networks, codes: list[Tensor], missing: Tensor) -> list[Tensor]:
        """Put predictions in the place of the codes of missing views."""
        views = range(len(codes))
        if self.mode == "complete":
            return [
                self._predicted(networks, codes, missing, v, [w for w in views if w != v])
                for v in views
            ]
        core, *others = views
        filled = list(codes)
        filled[core] = self._predicted(networks, codes, missing, core, others)
        for v in others:
            predicted = networks.predict(core, v, filled[core])
            filled[v] = torch.where(missing[:, v, None], predicted, codes[v])
        return filled

    @staticmethod
    def _predicted(
        networks: _Networks, codes: list[Tensor], missing: Tensor, v: int, others: list[int]
    ) -> Tensor:
        """Return the codes of a view, missing ones as the mean of what views at hand predict."""
        there = (~missing[:, others]).to(codes[v].dtype)  # b × V − 1
        predicted = torch.stack([networks.predict(w, v, codes[w]) for w in others], dim=1)
        mean = (there[:, :, None] * predicted).sum(1) / there.sum(1, keepdim=True).clamp(min=1)
        return torch.where(missing[:, v, None], mean, codes[v])


class _Networks(nn.Module):
    """An auto-encoder for each view, and a predictor for each route from a view to another one."""

    def __init__(
        self,
        widths: Sequence[int],
        *,
        hidden: Sequence[int],
        latent: int,
        predictor: Sequence[int],
        routes: Pairs,
        generators: Sequence[torch.Generator],
    ) -> None:
        super().__init__()
        self.routes = routes
        made = list(zip(widths, generators, strict=True))
        self.encoders = nn.ModuleList(
            NormPerceptron((width, *hidden, latent), g, plain_end=True) for width, g in made
        )
        self.decoders = nn.ModuleList(
            NormPerceptron((latent, *reversed(hidden), width), g, plain_end=False)
            for width, g in made
        )
        self.predictors = nn.ModuleDict(
            {
                f"{v}-{w}": NormPerceptron(
                    (latent, *predictor, latent), generators[v], plain_end=True
                )
                for v, w in routes
            }
        )

    def encode(self, xs: Sequence[Tensor]) -> list[Tensor]:
        """X_v (b × d_v) → H_v (b × L), rows that sum to 1."""
        pairs = zip(self.encoders, xs, strict=True)
        return [encoder(x).softmax(dim=1) for encoder, x in pairs]

    def decode(self, hs: Sequence[Tensor]) -> list[Tensor]:
        """H_v (b × L) → the reconstructed X_v (b × d_v), nothing below 0."""
        return [decoder(h) for decoder, h in zip(self.decoders, hs, strict=True)]

    def predict(self, v: int, w: int, h: Tensor) -> Tensor:
        """H_v (b × L) → the predicted H_w (b × L), rows that sum to 1."""
        predicted: Tensor = self.predictors[f"{v}-{w}"](h).softmax(dim=1)
        return predicted


def compared(n_views: int, mode: Mode) -> tuple[Pairs, int]:
    """List the pairs of views that are compared, that of the first two first, and their divisor."""
    if n_views < 3 or mode == "core":
        return [(0, v) for v in range(1, n_views)], n_views - 1
    return list(combinations(range(n_views), 2)), n_views


def routes(n_views: int, mode: Mode) -> Pairs:
    """List who predicts whom."""

    def found() -> Iterator[tuple[int, int]]:
        if mode == "complete":
            yield from permutations(range(n_views), 2)
            return
        for v in range(1, n_views):
            yield from ((0, v), (v, 0))

    return list(found())
