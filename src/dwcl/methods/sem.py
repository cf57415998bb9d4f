r"""SEM: contrast of all pairs of views, weighed by how much the two agree, with reconstruction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from dwcl.clustering.minibatch import cluster
from dwcl.clustering.tables import Table
from dwcl.losses import infonce, reconstruction, rince, spectral
from dwcl.methods.base import DeepMultiViewClusterer, Run
from dwcl.methods.pretraining import reconstruct
from dwcl.methods.settings import Count, CountOrNone, NotNegative, Positive, Widths
from dwcl.nn import Corruption, PrecisionChoice, ViewNetworks, with_noise, with_zeros
from dwcl.training.batches import Batch
from dwcl.training.loop import Loss, LossTerms, OptimiserReset, Trainer
from dwcl.views import (
    Pair,
    as_records,
    between_views,
    cmi,
    cmi_weight,
    every_pair,
    jsd,
    jsd_weight,
    mmd,
    mmd_weight,
)

Exponent: TypeAlias = Annotated[float, Field(gt=0, le=1)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]

TEMPERATURES = {"infonce": 1.0, "rince": 0.5}


class SEM(DeepMultiViewClusterer):
    r"""Self-weighted multi-view contrastive learning with reconstruction regularisation.

    Each view v has an auto-encoder with code :math:`H^v` and a linear head whose rows, brought to
    length 1, are :math:`\hat H^v`. Contrast between views would draw good features down to what
    they share with poor ones. Two things stand against that: pairs of views that differ much count
    little, and every view has to stay reconstructible from its code. After pre-training on
    reconstruction alone,

    .. math::

        L = \sum_{v=1}^{V} \sum_{w=1}^{V} W^{v,w} \, \ell(\hat H^v, \hat H^w)
            + \lambda \sum_{v=1}^{V} \mathrm{MSE}(X^v, \hat X^v)

    is minimised, over all ordered pairs with those of a view and itself among them, which spread
    the samples of the view. The loss :math:`\ell` is one of three: ``infonce``
    (:func:`dwcl.losses.infonce`), ``pscl`` (:func:`dwcl.losses.spectral`) or ``rince``
    (:func:`dwcl.losses.rince`), each a mean over the batch. The weights follow, without labels,
    from one of three measures of two views' features:

    .. math::

        W^{v,w} = e^{\mathrm{NMI}(v,w)} - 1 \;\text{(cmi)}, \qquad
        W^{v,w} = e^{1 - \mathrm{JSD}(v,w)} - 1 \;\text{(jsd)}, \qquad
        W^{v,w} = e^{-\mathrm{MMD}(v,w)} \;\text{(mmd)},

    with the normalised mutual information of the two views' k-means clusters, the mean
    Jensen–Shannon divergence of their samples (:func:`dwcl.views.jsd`), or their maximum mean
    discrepancy (:func:`dwcl.views.mmd`). The first weights are those of H; after each iteration
    they are found anew from :math:`\hat H`, and they are constants in between. The clusters are
    those of k-means on :math:`\hat H^1 \Vert \dots \Vert \hat H^V`.

    Notes
    -----
    What differs from the code of the reference:

    * The state after the last epoch is the result. The reference can also keep the best of several
      runs by their scores.
    * k-means takes all samples as long as their features fit into the memory budget; the reference
      goes over to mini-batches above 10,000 samples. It takes 100 restarts; here they are the
      house's ten, since restarts beyond ten cost more than they give.
    * The contrast of (v, w) and that of (w, v) are equal, so it is computed once and counts twice.
    * A batch of one sample has no negatives, and the mean over them in PSCL no value: there the
      attraction of its positives is all that is left.
    * The length of rows that PSCL allows, :math:`\sqrt 3`, is beyond that of
      :math:`\hat H`, so nothing is ever shortened.
    * JSD is computed by logarithms, so that probabilities next to zero leave no undefined values.
    * Where samples are corrupted, these and the clean ones go through the encoders together.
    * The reference leaves the values of some data sets as they are; here every view is scaled
      unless ``scaling`` (or a recipe) says otherwise.

    JSD and MMD compare features one by one, although each view's encoder numbers them in its own
    way; CMI does not depend on that.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters k. One is allowed, as everywhere in scikit-learn.
    loss : {"infonce", "pscl", "rince"}, default="infonce"
        The contrast of two views.
    measure : {"cmi", "jsd", "mmd"}, default="cmi"
        What the weights follow from.
    reconstruction : {"ae", "dae", "mae"}, default="ae"
        What the codes that are decoded come from: the samples themselves, samples with noise, or
        samples of which a part of the entries is zero. The aim is the clean sample in each case,
        and contrast always takes clean ones.
    reconstruction_weight : float, default=1.0
        λ. Pre-training always reconstructs.
    temperature : float or None, default=None
        Of the contrast; None is 1 for ``infonce`` and 0.5 for ``rince``. PSCL has none.
    rince_exponent, rince_density : float, default=0.5, 0.001
        q in (0, 1] and λ of RINCE.
    noise : float, default=1.0
        Standard deviation of the noise of ``dae``, whatever the scale of the data.
    masked : float, default=0.3
        Share of the entries of a batch that ``mae`` puts to zero: exactly so many, anywhere in it.
    label_factor : float, default=1.0
        CMI compares clusterings of the views into this many times k clusters, rounded down. The
        final clusters are k in any case.
    encoder : tuple of int, default=(500, 500, 2000)
        Hidden widths of the encoders.
    decoder : tuple of int or None, default=None
        Hidden widths of the decoders; None mirrors the encoder.
    latent, embedding : int, default=512, 128
        Widths of H and Ĥ.
    pretrain_epochs : int, default=100
        Epochs on reconstruction alone.
    iterations, epochs : int, default=4, 100
        How often the weights are taken anew, and the contrastive epochs under each.
    batch_size : int, default=256
        The last batch of an epoch may be short.
    learning_rate : float, default=3e-4
        Of Adam.
    optimiser_reset : {"never", "phase", "epoch"}, default="epoch"
        When Adam forgets its moments during contrastive learning: its steps are then nearly those
        of the gradients' signs for a while. The first contrastive epoch goes on with the moments
        of pre-training.
    scaling : str or dict, default="minmax"
        ``minmax``, ``standard``, ``row-l2``, ``none`` or ``auto``, for all views or by view.
    n_init : int, default=10
        Restarts of every k-means: the house's number, see the notes.
    memory_budget : float, default=2.0
        GB that data and features may take in memory. Larger data are read by batches, in an order
        that a disk can serve; larger features are kept in files meanwhile, and clustered by
        mini-batches.
    precision : {"auto", "fp32", "bf16"}, default="auto"
        Arithmetic of the layers while they learn; ``auto`` takes bf16 where the processor has it
        natively. Weights, losses, k-means, measures and embeddings are in fp32 or better.
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
    pair_weights_ : list of dict
        Pairs and weights that follow from Ĥ after the last iteration.
    history_ : list of dict
        One record per epoch (losses) and per time that views were weighed (event ``weights``:
        what was measured between any two views, and the pairs with the weights that follow).
    precision_ : str
        What ``auto`` came to.
    notes_ : list of str
        What was noticed in the data.
    n_features_in_ : int
        Number of features of all views together.

    References
    ----------
    Jie Xu, Shuo Chen, Yazhou Ren, Xiaoshuang Shi, Heng Tao Shen, Gang Niu, Xiaofeng Zhu:
    Self-Weighted Contrastive Learning among Multiple Views for Mitigating Representation
    Degeneration. NeurIPS 2023.

    Examples
    --------
    >>> from dwcl import make_multiview
    >>> from dwcl.methods.sem import SEM
    >>> data = make_multiview(60, 3, random_state=0)
    >>> model = SEM(3, pretrain_epochs=3, iterations=1, epochs=3, random_state=0)
    >>> model.fit_predict(data).shape
    (60,)
    """

    method_name = "sem"

    def __init__(
        self,
        n_clusters: Count = 8,
        *,
        loss: Literal["infonce", "pscl", "rince"] = "infonce",
        measure: Literal["cmi", "jsd", "mmd"] = "cmi",
        reconstruction: Literal["ae", "dae", "mae"] = "ae",
        reconstruction_weight: NotNegative = 1.0,
        temperature: Positive | None = None,
        rince_exponent: Exponent = 0.5,
        rince_density: Positive = 0.001,
        noise: NotNegative = 1.0,
        masked: Share = 0.3,
        label_factor: Positive = 1.0,
        encoder: Widths = (500, 500, 2000),
        decoder: Widths | None = None,
        latent: Count = 512,
        embedding: Count = 128,
        pretrain_epochs: CountOrNone = 100,
        iterations: CountOrNone = 4,
        epochs: CountOrNone = 100,
        batch_size: Count = 256,
        learning_rate: Positive = 3e-4,
        optimiser_reset: OptimiserReset = "epoch",
        scaling: str | dict[str, str] = "minmax",
        n_init: Count = 10,
        memory_budget: Positive = 2.0,
        precision: PrecisionChoice = "auto",
        device: str = "auto",
        threads: Count | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.loss = loss
        self.measure = measure
        self.reconstruction = reconstruction
        self.reconstruction_weight = reconstruction_weight
        self.temperature = temperature
        self.rince_exponent = rince_exponent
        self.rince_density = rince_density
        self.noise = noise
        self.masked = masked
        self.label_factor = label_factor
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
        self.memory_budget = memory_budget
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

    def _learn(self, run: Run) -> dict[str, Any]:
        networks = cast(ViewNetworks, run.networks)
        corrupt = self._corruption(run.trainer, run.view_names)
        loss: Loss = partial(reconstruct, networks, corrupt=corrupt)
        run.trainer.phase("pretrain", self.pretrain_epochs, loss)
        pairs = self._weigh(run, 0)
        device = next(networks.parameters()).device
        for iteration in range(1, self.iterations + 1):
            factors = [pair.weight for pair in pairs]
            weights = torch.tensor(factors, dtype=torch.float32, device=device)
            loss = partial(self.contrast, networks, pairs, weights, corrupt)
            name = f"contrast-{iteration}"
            run.trainer.phase(name, self.epochs, loss, reset=self.optimiser_reset)
            pairs = self._weigh(run, iteration)
        return {"pair_weights_": as_records(pairs, run.view_names)}

    # -- the losses --------------------------------------------------------------------------------

    def contrast(
        self,
        networks: ViewNetworks,
        pairs: Sequence[Pair],
        weights: Tensor,  # P
        corrupt: Corruption | None,
        batch: Batch,
    ) -> LossTerms:
        """Σ weight · contrast + λ · Σ reconstruction, for one batch."""
        if corrupt is None or not self.reconstruction_weight:
            hs = codes = networks.encode(batch.views)
        else:
            # In one pass, as two would have two products for the gradients of each layer.
            both = [torch.cat(x) for x in zip(batch.views, corrupt(batch.views), strict=True)]
            halves = [h.tensor_split(2) for h in networks.encode(both)]
            hs, codes = [clean for clean, _ in halves], [other for _, other in halves]
        by_pair = self._by_pair(networks.project(hs), [(pair.v, pair.w) for pair in pairs])
        parts = {"contrast": by_pair}
        total = (weights * by_pair).sum()
        if self.reconstruction_weight:
            by_view = reconstruction(batch.views, networks.decode(codes))
            parts["reconstruction"] = by_view
            total = total + self.reconstruction_weight * by_view.sum()
        return LossTerms(total, parts)

    def _by_pair(self, zs: Sequence[Tensor], pairs: Sequence[tuple[int, int]]) -> Tensor:
        """Contrast pairs of views: mean losses (P)."""
        if self.loss == "pscl":
            return spectral(zs, pairs).mean(dim=1)
        temperature = self.temperature or TEMPERATURES[self.loss]
        if self.loss == "infonce":
            return infonce(zs, pairs, temperature).mean(dim=1)
        rows = rince(
            zs, pairs, temperature, exponent=self.rince_exponent, density=self.rince_density
        )
        return rows.mean(dim=1)

    def _corruption(self, trainer: Trainer, names: Sequence[str]) -> Corruption | None:
        """Choose what is done to samples before they are encoded, anew for each batch and view."""
        if self.reconstruction == "ae":
            return None
        changed = partial(with_noise, deviation=self.noise)
        if self.reconstruction == "mae":
            changed = partial(with_zeros, share=self.masked)

        def corrupt(views: Sequence[Tensor]) -> list[Tensor]:
            streams = [trainer.stream(f"{self.reconstruction}-{name}") for name in names]
            return [changed(x, generator=s) for x, s in zip(views, streams, strict=True)]

        return corrupt

    # -- the weights -------------------------------------------------------------------------------

    def _weigh(self, run: Run, iteration: int) -> list[Pair]:
        """Weigh all pairs of views after an iteration (0: after pre-training)."""
        compute = partial(self._weights_after, run, iteration)
        table = run.trainer.once(f"weights-{iteration}", compute)["weights"]
        return every_pair(len(table), lambda v, w: table[v][w])

    def _weights_after(self, run: Run, iteration: int) -> dict[str, Any]:
        """Measure all pairs of views, by H at first and then by Ĥ, and put that on record."""
        networks = cast(ViewNetworks, run.networks)
        forward = networks.encode if iteration == 0 else partial(self._represent, networks)
        with run.features(forward) as features:
            values, weigh = self._measured(run, features, iteration)
        table = [[weigh(value) for value in row] for row in values]
        pairs = every_pair(len(table), lambda v, w: table[v][w])
        run.trainer.record(
            {
                "event": "weights",
                "iteration": iteration,
                "measure": self.measure,
                "values": [list(row) for row in values],
                "pairs": as_records(pairs, run.view_names),
            }
        )
        return {"weights": table}

    def _measured(
        self, run: Run, features: Sequence[Table], iteration: int
    ) -> tuple[tuple[tuple[float, ...], ...], Callable[[float], float]]:
        """Compare all views (V × V), and say how a weight follows from a value."""
        if self.measure == "jsd":
            return between_views(features, jsd, 0.0), jsd_weight
        if self.measure == "mmd":
            return between_views(features, mmd, 0.0), mmd_weight
        wanted = max(1, int(self.label_factor * run.n_clusters))
        labels = [
            cluster(
                h,
                min(wanted, run.source.n_samples),
                n_init=self.n_init,
                generator=run.streams.torch("kmeans", f"weights-{iteration}", name),
                budget=run.memory.exact,
            ).labels
            for name, h in zip(run.view_names, features, strict=True)
        ]
        return between_views(labels, cmi, 1.0), cmi_weight
