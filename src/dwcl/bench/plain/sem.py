"""SEM in plain eager PyTorch: all V² ordered pairs in two loops, each with masks of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from dwcl.bench.plain import Epoch, PlainVersion
from dwcl.bench.plain._parts import learn, shuffled
from dwcl.nn import ViewNetworks


def masked_infonce(z_v: Tensor, z_w: Tensor, temperature: float) -> Tensor:
    """InfoNCE of one pair of views, by a mask over the 2b × 2b similarities: mean of the rows."""
    b = len(z_v)
    rows = torch.cat([z_v, z_w])
    similarity = rows @ rows.T / temperature
    positives = torch.cat([similarity.diagonal(b), similarity.diagonal(-b)])
    same_sample = torch.eye(b, dtype=torch.bool).repeat(2, 2)
    negatives = similarity[~same_sample].reshape(2 * b, -1)
    logits = torch.cat([positives[:, None], negatives], dim=1)
    return functional.cross_entropy(logits, torch.zeros(2 * b, dtype=torch.int64))


class PlainSEM:
    """The contrastive epochs of SEM with its usual loss and reconstruction.

    Parameters
    ----------
    networks : ViewNetworks
        With plain layers.
    views : sequence of Tensor, n × d_v
        All samples.
    weights : sequence of sequence of float
        Of all ordered pairs of views, V × V.
    batch_size, learning_rate, temperature
        As the method has them.
    """

    def __init__(
        self,
        networks: ViewNetworks,
        views: Sequence[Tensor],
        weights: Sequence[Sequence[float]],
        *,
        batch_size: int = 256,
        learning_rate: float = 3e-4,
        temperature: float = 1.0,
    ) -> None:
        self.networks = networks.train()
        self.views = list(views)
        self.weights = weights
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.temperature = temperature
        self._generator = torch.Generator().manual_seed(0)

    def epoch(self) -> float:
        """Learn from all samples once, with an optimiser of its own; returns the mean loss."""
        optimiser = torch.optim.Adam(self.networks.parameters(), lr=self.learning_rate)
        batches = shuffled(len(self.views[0]), self.batch_size, self._generator)
        return learn(lambda i: self._loss([view[i] for view in self.views]), batches, optimiser)

    def _loss(self, xs: Sequence[Tensor]) -> Tensor:
        loss = torch.zeros(())
        zs = []
        for x, autoencoder, head in zip(xs, self.networks.each(), self.networks.heads, strict=True):
            h = autoencoder.encoder(x)
            zs.append(functional.normalize(head(h), dim=1))
            loss = loss + functional.mse_loss(autoencoder.decoder(h), x)
        for v, z_v in enumerate(zs):
            for w, z_w in enumerate(zs):
                loss = loss + self.weights[v][w] * masked_infonce(z_v, z_w, self.temperature)
        return loss


def contrast(model: Any, networks: nn.Module, views: Sequence[Tensor]) -> Epoch:
    """Make the contrastive epoch under the settings of a model, with equal weights."""
    plain = PlainSEM(
        cast(ViewNetworks, networks),
        views,
        [[1.0] * len(views)] * len(views),
        batch_size=model.batch_size,
        learning_rate=model.learning_rate,
    )
    return plain.epoch


def schedule(epochs: int) -> dict[str, Any]:
    """Run the first contrastive phase for so many epochs; the views are weighed by the way."""
    return {"pretrain_epochs": 0, "iterations": 1, "epochs": epochs}


PLAIN = PlainVersion("sem", {"contrast-1": contrast}, schedule)
