"""DealMVC in plain eager PyTorch: a graph and a calibration for each pair and for the whole."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from dwcl.bench.plain import Epoch, PlainVersion
from dwcl.bench.plain._parts import in_batches
from dwcl.bench.plain.mflvc import finetune, schedule
from dwcl.nn import LevelNetworks


def label_graph(q_v: Tensor, q_w: Tensor, threshold: float) -> Tensor:
    """Weigh the samples of one view (rows) against those of another by their clusters, b × b."""
    graph = q_v @ q_w.T
    graph.fill_diagonal_(1)
    graph = graph * (graph >= threshold)
    return graph / graph.sum(1, keepdim=True)


def calibration(z_v: Tensor, z_w: Tensor, graph: Tensor) -> Tensor:
    """Cross-entropy of the similarities of samples (b × d) with a graph; the mean of the rows."""
    shares = (z_v @ z_w.T).softmax(1)
    return -(graph * (shares + 1e-7).log()).sum(1).mean()


class PlainDealMVC:
    """The loss of the calibration, under the usual settings.

    Parameters
    ----------
    networks : LevelNetworks
        With plain layers.
    threshold : float
        As the method has it.

    Attributes
    ----------
    weight : float
        Of each view in the fused feature of the batch before; 1/V at the beginning of an epoch.
    """

    def __init__(self, networks: LevelNetworks, threshold: float) -> None:
        self.networks = networks
        self.threshold = threshold
        self.begin_epoch()

    def begin_epoch(self) -> None:
        """Give the views their first weights again."""
        self.weight = 1 / len(self.networks.each())

    def __call__(self, xs: list[Tensor]) -> Tensor:
        """Σ reconstruction + calibration of the whole and by pairs + consistency."""
        total = torch.zeros(())
        zs, qs = [], []
        for x, autoencoder in zip(xs, self.networks.each(), strict=True):
            h = autoencoder.encoder(x)
            zs.append(functional.normalize(self.networks.feature_head(h), dim=1))
            qs.append(self.networks.label_head(h).softmax(1))
            total = total + functional.mse_loss(autoencoder.decoder(h), x)
        self.weight /= len(xs)
        fused = self.weight * torch.stack(zs).sum(0)
        q = self.networks.label_head(fused).softmax(1)
        whole = label_graph(q, q, self.threshold)
        total = total + calibration(fused, fused, whole)
        for position, (v, w) in enumerate(combinations(range(len(xs)), 2)):
            graph = label_graph(qs[v], qs[w], self.threshold)
            total = total + calibration(zs[v], zs[w], graph)
            if position < len(xs):  # the reference leaves further pairs out
                total = total + functional.mse_loss(graph, whole)
        return total


def calibrate(model: Any, networks: nn.Module, views: Sequence[Tensor]) -> Epoch:
    """Make the epoch on reconstruction and calibration."""
    loss = PlainDealMVC(cast(LevelNetworks, networks), model.threshold)
    learn = in_batches(model, networks, views, loss)

    def epoch() -> float:
        loss.begin_epoch()
        return learn()

    return epoch


PLAIN = PlainVersion("dealmvc", {"calibrate": calibrate, "finetune": finetune}, schedule)
