"""The reference that the engine is measured against: the method in plain eager PyTorch.

It is what one writes first, and what published code of such methods looks like: a ``DataLoader``,
loops over views and over all V² ordered pairs, an InfoNCE loss that builds a 2b × 2b similarity
matrix with masks for every pair, and Adam as it comes. The numbers are those of the engine with
``mechanism="pairwise"``; a test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from dwcl.bench.plain import in_plain_layers
from dwcl.nn import ViewNetworks


def masked_infonce(z_v: Tensor, z_w: Tensor, temperature: float) -> Tensor:
    """InfoNCE of one pair of views by masks over the 2b × 2b similarities; the mean of the rows."""
    b = len(z_v)
    stacked = torch.cat([z_v, z_w])
    similarity = stacked @ stacked.T / temperature
    positives = torch.cat([similarity.diagonal(b), similarity.diagonal(-b)]).reshape(2 * b, 1)
    mask = torch.ones((2 * b, 2 * b), dtype=torch.bool, device=z_v.device)
    mask = mask.fill_diagonal_(0)
    for i in range(b):
        mask[i, b + i] = 0
        mask[b + i, i] = 0
    negatives = similarity[mask].reshape(2 * b, -1)
    logits = torch.cat([positives, negatives], dim=1)
    target = torch.zeros(2 * b, dtype=torch.long, device=z_v.device)
    return functional.cross_entropy(logits, target)


class NaiveTrainer:
    """Trains a copy of networks in PyTorch's own layers, one loop inside the other.

    Attributes
    ----------
    networks : ViewNetworks
        The copy.
    """

    def __init__(
        self,
        networks: ViewNetworks,
        views: Sequence[Tensor],
        *,
        batch_size: int = 128,
        learning_rate: float = 3e-4,
        temperature: float = 1.0,
    ) -> None:
        self.networks = cast(ViewNetworks, in_plain_layers(networks)).train()
        self.encoders = [autoencoder.encoder for autoencoder in self.networks.each()]
        self.decoders = [autoencoder.decoder for autoencoder in self.networks.each()]
        self.heads = list(self.networks.heads)
        self.temperature = temperature
        self.loader = DataLoader(
            TensorDataset(*views),
            batch_size=batch_size,
            shuffle=True,
            generator=torch.Generator().manual_seed(0),
        )
        self.optimiser = torch.optim.Adam(self.networks.parameters(), lr=learning_rate)

    def pretrain_epoch(self) -> float:
        """One epoch on reconstruction; returns the mean loss of the batches."""
        total = 0.0
        for xs in self.loader:
            losses = []
            for v, x in enumerate(xs):
                losses.append(functional.mse_loss(self.decoders[v](self.encoders[v](x)), x))
            total += self._step(losses)
        return total / len(self.loader)

    def contrast_epoch(self, weights: Sequence[Sequence[float]]) -> float:
        """One epoch on contrast of all ordered pairs, and reconstruction."""
        total = 0.0
        for xs in self.loader:
            losses = []
            zs = []
            for v, x in enumerate(xs):
                h = self.encoders[v](x)
                zs.append(functional.normalize(self.heads[v](h), dim=1))
                losses.append(functional.mse_loss(self.decoders[v](h), x))
            for v in range(len(zs)):
                for w in range(len(zs)):
                    pair = masked_infonce(zs[v], zs[w], self.temperature)
                    losses.append(weights[v][w] * pair)
            total += self._step(losses)
        return total / len(self.loader)

    def _step(self, losses: Sequence[Tensor]) -> float:
        self.optimiser.zero_grad()
        loss = torch.stack(list(losses)).sum()
        loss.backward()
        self.optimiser.step()
        return loss.item()


def make_networks(widths: Sequence[int], seed: int = 0) -> ViewNetworks:
    """Make networks of the paper's widths."""
    return ViewNetworks(
        widths,
        encoder=(500, 500, 2000),
        latent=512,
        decoder=(2000, 500, 500),
        embedding=128,
        generators=[torch.Generator().manual_seed(seed + v) for v in range(len(widths))],
    )
