r"""Deep Safe Multi-View Clustering."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from dwcl.losses import deep_divergence
from dwcl.methods.base import Run
from dwcl.methods.settings import Count, CountOrNone, Positive, Widths
from dwcl.methods.soft import SoftClusterer
from dwcl.nn import (
    BatchNorm,
    Perceptron,
    PrecisionChoice,
    WeightedMean,
    joint_generator,
    perceptron,
)
from dwcl.training.batches import Batch
from dwcl.training.loop import LossTerms


class DSMVC(SoftClusterer):
    r"""Deep Safe Multi-View Clustering.

    One more view can make the clusters worse. So that it need not, this method has three ways to
    look at a sample: by the views that were there before, by all views, and by the newest view
    alone, each with encoders :math:`f` of its own. The last view is the newest; the order of the
    views matters. Features of several views are joined by a mean with learnt weights :math:`a`
    (they sum to 1, one per view), and so are the three ways, by a gate :math:`g`:

    .. math::

        H_i = g_1 \sum_{v<V} a^{\text{old}}_v f^{\text{old}}_v(X^v_i)
            + g_2 \sum_{v \le V} a^{\text{new}}_v f^{\text{new}}_v(X^v_i)
            + g_3 \, f^{\text{single}}(X^V_i)

    A gate that is all on one way falls back on the views before or on the newest one. A head makes
    hidden features :math:`\tilde H` of H and of these soft assignments Q, and all of it learns by
    deep divergence-based clustering (:func:`dwcl.losses.deep_divergence`):

    .. math::

        L = D_{\kappa(\tilde H)}(Q) + \frac{2}{b(b-1)} \sum_{i<j} Q_i^\top Q_j
            + D_{\kappa(\tilde H)}(M), \qquad M_{ik} = e^{-\lVert Q_i - e_k \rVert^2},

    with the Cauchy–Schwarz divergence D of clusters under a Gaussian kernel. Blocks of epochs in
    which everything but the gate learns alternate with blocks in which nothing but the gate learns,
    on the same loss. A sample's cluster is that of its greatest share in Q.

    Notes
    -----
    What differs from the reference code, or is to be known of it:

    * That code learns twenty times from fresh start values and reports the time with the highest
      accuracy, which takes labels. Here `restarts` says how often, 1 unless given, and the time
      with the smallest mean loss in its last epoch is kept. The loss has poor local optima: one
      time and the best of several are very different figures.
    * It learns from the first two views of a data set unless told otherwise; here all views that
      are given are used.
    * Its rate schedule and its clipping of gradients have no effect there, and are not here.
    * With fewer samples than `batch_size`, where it has no batch at all, all samples are one.
    * A single view has no views before it: the gate then has two ways, both of that view.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters k. With one there is nothing to learn.
    encoder : tuple of int, default=(512, 512)
        Hidden widths of the encoders.
    features : int, default=256
        Width of H; its features are not negative.
    hidden : int, default=100
        Width of the head's hidden features.
    kernel_width : float, default=0.15
        Width of the kernel in medians of the squared distances of a batch.
    epochs : int, default=120
        Epochs in all blocks together.
    block_length : int, default=20
        Epochs after which gate and networks take turns; the networks begin.
    restarts : int, default=1
        How often all of it is learnt from fresh start values.
    batch_size : int, default=128
        A last batch that is short is left out.
    learning_rate : float, default=1e-3
        Of Adam, which is made anew for each epoch.
    scaling : str or dict, default="minmax"
        ``minmax``, ``standard``, ``row-l2``, ``none`` or ``auto``, for all views or by view.
    memory_budget : float, default=2.0
        GB that data and features may take in memory. Larger data are read by batches, in an order
        that a disk can serve; larger features are kept in files meanwhile.
    precision : {"auto", "fp32", "bf16"}, default="auto"
        Arithmetic of the layers while they learn; ``auto`` takes bf16 where the processor has it
        natively. Weights, losses and embeddings are in fp32 or better.
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
        H of the training data; None where it is large for the memory budget (``transform`` gives
        it, also in parts).
    view_names_, view_widths_ : tuple
        The views in their order.
    gate_weights_ : dict of str to float
        Weights of the three ways, ``old``, ``new`` and ``single``.
    restart_losses_ : list of float
        Mean loss in the last epoch of each restart; the smallest one's networks are kept.
    history_ : list of dict
        One record per epoch: its loss and the three terms, ``divergence``, ``orthogonality`` and
        ``corners``.
    precision_ : str
        What ``auto`` came to.
    notes_ : list of str
        What was noticed in the data.
    n_features_in_ : int
        Number of features of all views together.

    References
    ----------
    Huayi Tang, Yong Liu: Deep Safe Multi-View Clustering: Reducing the Risk of Clustering
    Performance Degradation Caused by View Increase. CVPR 2022.

    Daniel J. Trosten, Sigurd Løkse, Robert Jenssen, Michael Kampffmeyer: Reconsidering
    Representation Alignment for Multi-View Clustering. CVPR 2021. (The loss.)

    Examples
    --------
    >>> from dwcl import make_multiview
    >>> from dwcl.methods.dsmvc import DSMVC
    >>> data = make_multiview(120, 3, random_state=0)
    >>> model = DSMVC(3, epochs=4, block_length=2, random_state=0)
    >>> model.fit_predict(data).shape
    (120,)
    """

    method_name = "dsmvc"
    saved_results = ("gate_weights_", "restart_losses_")

    def __init__(
        self,
        n_clusters: Count = 8,
        *,
        encoder: Widths = (512, 512),
        features: Count = 256,
        hidden: Count = 100,
        kernel_width: Positive = 0.15,
        epochs: CountOrNone = 120,
        block_length: Count = 20,
        restarts: Count = 1,
        batch_size: Count = 128,
        learning_rate: Positive = 1e-3,
        scaling: str | dict[str, str] = "minmax",
        memory_budget: Positive = 2.0,
        precision: PrecisionChoice = "auto",
        device: str = "auto",
        threads: Count | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.encoder = encoder
        self.features = features
        self.hidden = hidden
        self.kernel_width = kernel_width
        self.epochs = epochs
        self.block_length = block_length
        self.restarts = restarts
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
        return _Networks(
            widths,
            encoder=self.encoder,
            features=self.features,
            hidden=self.hidden,
            n_clusters=self.n_clusters,
            generators=generators,
        )

    def _total_epochs(self) -> int:
        return self.restarts * self.epochs

    def _represent(self, networks: nn.Module, xs: list[Tensor]) -> list[Tensor]:
        return [cast(_Networks, networks).fuse(xs)]

    def _assign(self, networks: nn.Module, xs: list[Tensor]) -> Tensor:
        safe = cast(_Networks, networks)
        return safe.assign(safe.hide(safe.fuse(xs)))

    def _learn(self, run: Run) -> dict[str, Any]:
        networks = cast(_Networks, run.networks)
        losses: list[float] = []
        kept: dict[str, Any] = {}
        # Without epochs there is nothing to tell one time from another by.
        for restart in range(1, self.restarts + 1 if self.epochs else 1):
            if restart > 1:
                run.trainer.once(f"restart-{restart}", partial(self._begin_anew, run, restart))
            self._alternate(run, restart)
            # By its place, since in a resumed run the past of all restarts is there already.
            epochs = [record for record in run.trainer.history if record["event"] == "epoch"]
            losses.append(epochs[restart * self.epochs - 1]["loss"])
            if self.restarts > 1 and losses.index(min(losses)) == restart - 1:
                kept = run.trainer.once(f"kept-{restart}", partial(_state, networks))
        if kept:
            names = networks.state_dict()
            networks.load_state_dict({name: kept[str(i)] for i, name in enumerate(names)})
        weights = networks.gate.weights().tolist()
        return {
            "gate_weights_": dict(zip(networks.ways, weights, strict=True)),
            "restart_losses_": losses,
        }

    # -- the parts ---------------------------------------------------------------------------------

    def loss(self, networks: _Networks, batch: Batch) -> LossTerms:
        """Give the loss of a batch, the same for networks and gate."""
        h = networks.hide(networks.fuse(batch.views))
        terms = deep_divergence(h, networks.assign(h), width=self.kernel_width)
        names = ("divergence", "orthogonality", "corners")
        return LossTerms(terms.sum(), dict(zip(names, terms, strict=True)))

    def _alternate(self, run: Run, restart: int) -> None:
        """Let networks and gate learn in turns."""
        networks = cast(_Networks, run.networks)
        gate = networks.gate.logits
        rest = tuple(p for p in networks.parameters() if p is not gate)
        for block, begin in enumerate(range(0, self.epochs, self.block_length)):
            turn, trained = ("gate", (gate,)) if block % 2 else ("networks", rest)
            run.trainer.phase(
                _phase_name(turn, block + 1, restart),
                min(self.block_length, self.epochs - begin),
                partial(self.loss, networks),
                trained=trained,
                reset="epoch",
                last_batch="drop",
            )

    def _begin_anew(self, run: Run, restart: int) -> dict[str, Any]:
        """Give the networks fresh start values."""
        networks = cast(_Networks, run.networks)
        generators = [
            run.streams.torch("networks", name, f"restart-{restart}") for name in run.view_names
        ]
        networks.load_state_dict(self._build(networks.widths, generators).state_dict())
        return {}


def _phase_name(turn: str, block: int, restart: int) -> str:
    """Name a phase; the first restart's are named as if it were the only one."""
    return f"{turn}-{block}" + (f"-restart-{restart}" if restart > 1 else "")


def _state(networks: nn.Module) -> dict[str, Any]:
    """Copy the state of some networks, by the places of its tensors."""
    return {str(i): tensor.clone() for i, tensor in enumerate(networks.state_dict().values())}


class _Networks(nn.Module):
    """Encoders of the three ways, the gate between them, and the head that names clusters."""

    def __init__(
        self,
        widths: Sequence[int],
        *,
        encoder: Sequence[int],
        features: int,
        hidden: int,
        n_clusters: int,
        generators: Sequence[torch.Generator],
    ) -> None:
        super().__init__()
        self.widths = tuple(widths)
        layers = [(width, *encoder, features) for width in widths]
        several = len(widths) > 1
        self.ways = ("old", "new", "single") if several else ("new", "single")
        self.old = _Branch(layers[:-1], generators[:-1]) if several else None
        self.new = _Branch(layers, generators)
        self.single = _perceptron(layers[-1], generators[-1])
        self.gate = WeightedMean(len(self.ways))
        shared = joint_generator(generators)
        self.inner = _perceptron((features, hidden), shared)
        self.norm = BatchNorm(hidden)
        self.outer = _perceptron((hidden, n_clusters), shared)

    def fuse(self, xs: Sequence[Tensor]) -> Tensor:
        """Make the gated feature H (b × features) of the views (b × d_v)."""
        ways = [] if self.old is None else [self.old(xs[:-1])]
        gated: Tensor = self.gate([*ways, self.new(xs), self.single(xs[-1]).relu()])
        return gated

    def hide(self, h: Tensor) -> Tensor:
        """Make the head's hidden features (b × hidden) of H."""
        hidden: Tensor = self.norm(self.inner(h).relu())
        return hidden

    def assign(self, hidden: Tensor) -> Tensor:
        """Make the soft assignments (b × k) of hidden features."""
        shares: Tensor = self.outer(hidden).softmax(1)
        return shares


class _Branch(nn.Module):
    """An encoder for each of some views, and the weighted mean of what they make."""

    def __init__(
        self, layers: Sequence[Sequence[int]], generators: Sequence[torch.Generator]
    ) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(map(_perceptron, layers, generators))
        self.mean = WeightedMean(len(layers))

    def forward(self, xs: Sequence[Tensor]) -> Tensor:
        """Join the features of the views (b × d_v) to one (b × features)."""
        features = [encoder(x).relu() for encoder, x in zip(self.encoders, xs, strict=True)]
        fused: Tensor = self.mean(features)
        return fused


def _perceptron(widths: Sequence[int], generator: torch.Generator) -> Perceptron:
    return perceptron(widths, generator, start="he-normal")
