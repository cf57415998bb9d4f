"""ACCMVC in plain eager PyTorch: each view against the common feature by masks of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from dwcl.bench.plain import Epoch, PlainVersion
from dwcl.bench.plain._parts import adam, learn, shuffled, squared_distances
from dwcl.bench.plain.concat_ae import pretrain_epochs
from dwcl.methods.accmvc import ACCMVC, AnchorNetworks


def transitions(f: Tensor, neighbours: int, guard: float) -> Tensor:
    """Probabilities (b × b) of rows among their neighbours, in closed form."""
    distances = squared_distances(f, f)
    least = distances.topk(neighbours + 1, dim=1, largest=False).values
    bound = least[:, neighbours, None] + guard
    room = neighbours * bound - least[:, :neighbours].sum(1, keepdim=True)
    return (bound - distances).clamp(min=0) / room


def damped_infonce(g: Tensor, f: Tensor, shares: Tensor, temperature: float) -> Tensor:
    """InfoNCE of a view and the common feature, by a mask over 2b × 2b; the mean of the rows."""
    b = len(g)
    rows = torch.cat([g, f])
    similarity = rows @ rows.T / temperature
    positives = torch.cat([similarity.diagonal(b), similarity.diagonal(-b)])
    same_sample = torch.eye(b, dtype=torch.bool).repeat(2, 2)
    damped = (1 - shares).repeat(2, 2) * similarity
    negatives = damped[~same_sample].reshape(2 * b, -1)
    logits = torch.cat([positives[:, None], negatives], dim=1)
    return functional.cross_entropy(logits, torch.zeros(2 * b, dtype=torch.int64))


class PlainACCMVC:
    """The contrastive epochs of ACCMVC.

    Parameters
    ----------
    model : ACCMVC
        For its settings.
    networks : AnchorNetworks
        With plain layers.
    views : sequence of Tensor, n × d_v
        All samples.
    """

    def __init__(self, model: ACCMVC, networks: AnchorNetworks, views: Sequence[Tensor]) -> None:
        self.model = model
        self.networks = networks.train()
        self.views = list(views)
        self._generator = torch.Generator().manual_seed(0)
        self._epochs_over = 0

    def epoch(self) -> float:
        """Learn from all samples once, with the optimiser of the pre-training."""
        bound = self.model.dropout_epochs
        dropout = self.model.dropout if bound is None or self._epochs_over < bound else 0.0
        self._epochs_over += 1
        n, b = len(self.views[0]), self.model.batch_size
        batches = shuffled(n, b, self._generator, drop_last=True)
        optimiser = adam(self.networks, self.model.learning_rate)
        return learn(
            lambda i: self.loss([view[i] for view in self.views], dropout), batches, optimiser
        )

    def loss(self, xs: Sequence[Tensor], dropout: float) -> Tensor:
        """Give the loss of a batch (b × d_v)."""
        autoencoders = self.networks.each()
        hs = [autoencoder.encoder(x) for autoencoder, x in zip(autoencoders, xs, strict=True)]
        f = self._common(hs, dropout)
        shares = transitions(f, min(self.model.neighbours, len(f) - 1), self.model.guard)
        loss = torch.zeros(())
        for x, h, autoencoder in zip(xs, hs, autoencoders, strict=True):
            g = functional.normalize(self.networks.head(h), dim=1)
            loss = loss + damped_infonce(g, f, shares, self.model.temperature)
            loss = loss + functional.mse_loss(autoencoder.decoder(h), x)
        return loss

    def _common(self, hs: Sequence[Tensor], dropout: float) -> Tensor:
        joint = torch.cat(list(hs), dim=1)
        shares = self.networks.to_anchors(joint).softmax(dim=1)
        given_back = functional.dropout(self.networks.from_anchors(shares), dropout)
        return functional.normalize(self.networks.common(joint + given_back), dim=1)


def pretrain(model: Any, networks: nn.Module, views: Sequence[Tensor]) -> Epoch:
    """Make the epoch of pre-training under the settings of a model."""
    return pretrain_epochs(
        cast(AnchorNetworks, networks),
        views,
        batch_size=model.batch_size,
        learning_rate=model.learning_rate,
        drop_last=True,
    )


def contrast(model: Any, networks: nn.Module, views: Sequence[Tensor]) -> Epoch:
    """Make the contrastive epoch under the settings of a model."""
    return PlainACCMVC(model, cast(AnchorNetworks, networks), views).epoch


def schedule(epochs: int) -> dict[str, Any]:
    """Run each phase for so many epochs."""
    return {"pretrain_epochs": epochs, "epochs": epochs}


PLAIN = PlainVersion("accmvc", {"pretrain": pretrain, "contrast": contrast}, schedule)
