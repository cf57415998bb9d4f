"""DSMVC in plain eager PyTorch: encoder after encoder, and the divergence as its formulas read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dwcl.bench.plain import Epoch, PlainVersion
from dwcl.bench.plain._parts import learn, shuffled, squared_distances
from dwcl.methods.dsmvc import DSMVC

LEAST = 1e-9


def divergence(weights: Tensor, kernel: Tensor) -> Tensor:
    """Cauchy–Schwarz divergence of clusters, by weights of the samples (b × k)."""
    k = weights.shape[1]
    shared = weights.T @ kernel @ weights
    own = shared.diagonal()
    product = own[:, None] * own
    shared = torch.where(shared < LEAST, LEAST, shared)
    product = torch.where(product < LEAST**2, LEAST**2, product)
    return 2 / (k * (k - 1)) * (shared / product.sqrt()).triu(1).sum()


def clustering_loss(h: Tensor, q: Tensor, width: float) -> Tensor:
    """Σ of the three terms for hidden features (b × d) and assignments (b × k)."""
    b, k = q.shape
    distances = squared_distances(h, h)
    scale = (width * distances.detach().median()).clamp(min=LEAST)
    kernel = torch.exp(-distances / (2 * scale))
    corners = torch.exp(-squared_distances(q, torch.eye(k, dtype=q.dtype)))
    alike = 2 / (b * (b - 1)) * (q @ q.T).triu(1).sum()
    return divergence(q, kernel) + alike + divergence(corners, kernel)


def weighted_mean(logits: Tensor, features: Sequence[Tensor]) -> Tensor:
    """Σ of features with weights that sum to 1, one after another."""
    fused = torch.zeros(())
    for weight, feature in zip(logits.softmax(0), features, strict=True):
        fused = fused + weight * feature
    return fused


class PlainDSMVC:
    """The epochs of DSMVC for its networks, and for its gate.

    Parameters
    ----------
    model : DSMVC
        For its settings.
    networks : torch.nn.Module
        Those of the method, with plain layers.
    views : sequence of Tensor, n × d_v
        All samples.
    """

    def __init__(self, model: DSMVC, networks: Any, views: Sequence[Tensor]) -> None:
        self.model = model
        self.networks = networks.train()
        self.views = list(views)
        self._generator = torch.Generator().manual_seed(0)

    def networks_epoch(self) -> float:
        """Learn everything but the gate."""
        gate = self.networks.gate.logits
        return self._epoch([p for p in self.networks.parameters() if p is not gate])

    def gate_epoch(self) -> float:
        """Learn nothing but the gate."""
        return self._epoch([self.networks.gate.logits])

    def loss(self, xs: Sequence[Tensor]) -> Tensor:
        """Give the loss of a batch (b × d_v)."""
        nets = self.networks
        ways = [] if nets.old is None else [self._branch(nets.old, xs[:-1])]
        ways += [self._branch(nets.new, xs), torch.relu(nets.single(xs[-1]))]
        hidden = nets.norm(torch.relu(nets.inner(weighted_mean(nets.gate.logits, ways))))
        return clustering_loss(hidden, nets.outer(hidden).softmax(1), self.model.kernel_width)

    def _branch(self, branch: Any, xs: Sequence[Tensor]) -> Tensor:
        features = [torch.relu(e(x)) for e, x in zip(branch.encoders, xs, strict=True)]
        return weighted_mean(branch.mean.logits, features)

    def _epoch(self, trained: Sequence[nn.Parameter]) -> float:
        """Hold all other parameters, and learn with an optimiser of the epoch's own."""
        self.networks.requires_grad_(False)
        for parameter in trained:
            parameter.requires_grad_(True)
        optimiser = torch.optim.Adam(trained, lr=self.model.learning_rate)
        n, b = len(self.views[0]), self.model.batch_size
        batches = shuffled(n, b, self._generator, drop_last=True)
        return learn(lambda i: self.loss([view[i] for view in self.views]), batches, optimiser)


def learn_networks(model: Any, networks: nn.Module, views: Sequence[Tensor]) -> Epoch:
    """Make the epoch of the networks under the settings of a model."""
    return PlainDSMVC(model, networks, views).networks_epoch


def learn_gate(model: Any, networks: nn.Module, views: Sequence[Tensor]) -> Epoch:
    """Make the epoch of the gate under the settings of a model."""
    return PlainDSMVC(model, networks, views).gate_epoch


def schedule(epochs: int) -> dict[str, Any]:
    """Run one block of each kind for so many epochs."""
    return {"epochs": 2 * epochs, "block_length": epochs, "restarts": 1}


PLAIN = PlainVersion("dsmvc", {"networks-1": learn_networks, "gate-2": learn_gate}, schedule)
