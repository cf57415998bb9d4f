"""DSIMVC in plain eager PyTorch: view after view, pair after pair, graphs of steps kept whole."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from dwcl.bench.plain import Epoch, PlainVersion
from dwcl.bench.plain._parts import adam, learn, shuffled
from dwcl.bench.plain.concat_ae import pretrain_epochs
from dwcl.methods.dsimvc import DSIMVC
from dwcl.nn import SharedHeads

STEPS = 10
"""So many steps are an epoch of the last phase."""


def spectral_rows(h: Tensor, g: Tensor, radius: float) -> Tensor:
    """Feature loss of a pair of views (b × d) by sample; their sum is the loss of the pair."""
    b = len(h)
    products = shortened(h, radius) @ shortened(g, radius).T
    positive = products.diagonal()
    others = products.masked_fill(torch.eye(b, dtype=torch.bool), 0)
    return others.square().sum(1) / (b * max(b - 1, 1)) - 2 / b * positive


def shortened(h: Tensor, radius: float) -> Tensor:
    """Bring rows that are too long to the root of the radius."""
    long = h.norm(dim=1, keepdim=True) >= math.sqrt(radius)
    return torch.where(long, math.sqrt(radius) * functional.normalize(h, dim=1), h)


def label_loss(q: Tensor, p: Tensor) -> Tensor:
    """Contrast of the clusters of a pair of views (b × k), and what is uneven in both."""
    k = q.shape[1]
    columns = functional.normalize(torch.cat([q, p], dim=1).T, dim=1, eps=1e-8)  # 2k × b
    cosines = columns @ columns.T
    positives = torch.cat([cosines.diagonal(k), cosines.diagonal(-k)])
    apart = ~torch.eye(k, dtype=torch.bool)
    own = torch.block_diag(apart, apart)  # the other clusters of the same view
    negatives = cosines[own].reshape(2 * k, k - 1)
    logits = torch.cat([positives[:, None], negatives], dim=1)
    contrast = functional.cross_entropy(logits, torch.zeros(2 * k, dtype=torch.int64))
    return contrast + unevenness(q) + unevenness(p)


def unevenness(q: Tensor) -> Tensor:
    """Tell how far the clusters of some assignments (b × k) are from being equally large."""
    share = q.sum(0) / q.sum()
    return math.log(q.shape[1]) + (share * share.clamp(min=1e-12).log()).sum()


def pairs_of(views: Sequence[Any]) -> list[tuple[int, int]]:
    """List the pairs of views; a single one is its own partner."""
    return list(combinations(range(len(views)), 2)) or [(0, 0)]


def endless(n: int, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield batches of n positions in random orders, joined end to end; of all if they are few."""
    size = min(batch_size, n)
    rest = torch.empty(0, dtype=torch.int64)
    while True:
        rest = torch.cat([rest, torch.randperm(n, generator=generator)])
        while len(rest) >= size:
            yield rest[:size]
            rest = rest[size:]


class Model(nn.Module):
    """Encoders and heads, one view after another."""

    def __init__(self, networks: SharedHeads) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(autoencoder.encoder for autoencoder in networks.each())
        self.features, self.labels = networks.features, networks.labels

    def forward(self, xs: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Make features and soft assignments of each view (b × d_v)."""
        codes = [encoder(x) for encoder, x in zip(self.encoders, xs, strict=True)]
        features = [self.features(code) for code in codes]
        return features, [self.labels(code).softmax(1) for code in codes]


class PlainDSIMVC:
    """The steps of the last phase of DSIMVC, ten of them an epoch.

    Parameters
    ----------
    model : DSIMVC
        For its settings.
    networks : torch.nn.Module
        Those of the method, with plain layers.
    views : sequence of Tensor, n × d_v
        All samples; rows of views that a sample lacks are NaN.
    """

    def __init__(self, model: DSIMVC, networks: Any, views: Sequence[Tensor]) -> None:
        self.model = model
        self.networks = Model(networks.clustering).train()
        self.weighting = networks.weighting
        self.complete = complete_samples(views)
        self.filled = filled_samples(views)
        rate = model.learning_rate
        self._adam = torch.optim.Adam(self.networks.parameters(), lr=rate)
        rate = model.weight_learning_rate
        self._weighting_adam = torch.optim.Adam(self.weighting.parameters(), lr=rate)
        self._draws = [
            endless(len(xs[0]), model.batch_size, torch.Generator().manual_seed(seed))
            for seed, xs in enumerate([self.complete, self.filled])
            if len(xs[0])
        ]

    def epoch(self) -> float:
        """Take ten steps, and return their mean loss."""
        if len(self._draws) == 1:
            batches = islice(self._draws[0], STEPS)
            return learn(lambda i: self.of_complete(rows(self.complete, i)), batches, self._adam)
        steps = list(islice(zip(*self._draws, strict=True), STEPS))
        return sum(self._mixed_step(*step) for step in steps) / len(steps)

    def of_complete(self, xs: Sequence[Tensor], at: dict[str, Tensor] | None = None) -> Tensor:
        """Give the loss of complete samples, with other parameters if need be."""
        hs, qs = self.networks(xs) if at is None else functional_call(self.networks, at, (xs,))
        return complete_loss(hs, qs, self.model.radius)

    def of_filled(self, hs: Sequence[Tensor], qs: Sequence[Tensor], weights: Tensor) -> Tensor:
        """Give the loss of filled samples with weights (b)."""
        total = weights.sum()
        shares = weights / total if total > 0 else weights
        if self.model.filled_features == "mean":
            shares = shares * len(weights)
        loss = torch.zeros(())
        for v, w in pairs_of(hs):
            loss = loss + (spectral_rows(hs[v], hs[w], self.model.radius) * shares).sum()
            loss = loss + label_loss(qs[v], qs[w])
        return loss

    def _mixed_step(self, complete: Tensor, filled: Tensor) -> float:
        """Learn the weights by a look ahead, and then the networks with them."""
        xs, ys = rows(self.complete, complete), rows(self.filled, filled)
        self._learn_weights(xs, ys)
        hs, qs = self.networks(ys)
        loss = self.of_complete(xs) + self.of_filled(hs, qs, self._weigh(qs).detach())
        self._adam.zero_grad()
        torch.autograd.backward(loss)
        self._adam.step()
        return loss.item()

    def _learn_weights(self, xs: Sequence[Tensor], ys: Sequence[Tensor]) -> None:
        """Learn the weights by the loss of complete samples after a step on both."""
        hs, qs = self.networks(ys)
        loss = self.of_complete(xs) + self.of_filled(hs, qs, self._weigh(qs))
        theta = dict(self.networks.named_parameters())
        gradients = torch.autograd.grad(loss, list(theta.values()), create_graph=True)
        ahead = {
            name: value - self.model.look_ahead * gradient
            for (name, value), gradient in zip(theta.items(), gradients, strict=True)
        }
        learning = list(self.weighting.parameters())
        found = torch.autograd.grad(self.of_complete(xs, ahead), learning)
        for parameter, gradient in zip(learning, found, strict=True):
            parameter.grad = gradient
        self._weighting_adam.step()

    def _weigh(self, qs: Sequence[Tensor]) -> Tensor:
        weights: Tensor = self.weighting(torch.stack(list(qs)).mean(0))[:, 0].sigmoid()
        return weights


def complete_loss(hs: Sequence[Tensor], qs: Sequence[Tensor], radius: float) -> Tensor:
    """Σ over the pairs of views of both losses."""
    loss = torch.zeros(())
    for v, w in pairs_of(hs):
        loss = loss + spectral_rows(hs[v], hs[w], radius).sum() + label_loss(qs[v], qs[w])
    return loss


def rows(xs: Sequence[Tensor], index: Tensor) -> list[Tensor]:
    """Pick the same samples of each view."""
    return [x[index] for x in xs]


def complete_samples(views: Sequence[Tensor]) -> list[Tensor]:
    """Pick the samples that have every view."""
    return rows(views, ~_lacking(views).any(1))


def filled_samples(views: Sequence[Tensor]) -> list[Tensor]:
    """Pick the others, with means where they lack a view, which would be those of neighbours."""
    incomplete = _lacking(views).any(1)
    return [x[incomplete].where(~x[incomplete].isnan(), x.nanmean(0)) for x in views]


def _lacking(views: Sequence[Tensor]) -> Tensor:
    return torch.stack([x[:, 0].isnan() for x in views], dim=1)


def pretrain(model: Any, networks: Any, views: Sequence[Tensor]) -> Epoch:
    """Make the epoch of the auto-encoders under the settings of a model."""
    return _pretrain(model, networks.clustering, views)


def pretrain_neighbours(model: Any, networks: Any, views: Sequence[Tensor]) -> Epoch:
    """Make the epoch of the auto-encoders among which neighbours are looked for."""
    return _pretrain(model, networks.neighbours, views)


def _pretrain(model: DSIMVC, networks: SharedHeads, views: Sequence[Tensor]) -> Epoch:
    return pretrain_epochs(
        networks,
        complete_samples(views),
        batch_size=model.batch_size,
        learning_rate=model.learning_rate,
    )


def neighbours(model: Any, networks: Any, views: Sequence[Tensor]) -> Epoch:
    """Make the epoch in which these learn by contrast, with features of length 1."""
    complete = complete_samples(views)
    learning = Model(networks.neighbours).train()
    optimiser = adam(networks.neighbours, model.learning_rate)
    generator = torch.Generator().manual_seed(0)

    def loss(index: Tensor) -> Tensor:
        hs, qs = learning(rows(complete, index))
        return complete_loss([functional.normalize(h, dim=1) for h in hs], qs, model.radius)

    def epoch() -> float:
        n, b = len(complete[0]), model.batch_size
        return learn(loss, shuffled(n, b, generator, drop_last=True), optimiser)

    return epoch


def cluster(model: Any, networks: Any, views: Sequence[Tensor]) -> Epoch:
    """Make the ten steps of the last phase under the settings of a model."""
    return PlainDSIMVC(model, networks, views).epoch


def schedule(epochs: int) -> dict[str, Any]:
    """Run each phase for so many epochs."""
    return {"pretrain_epochs": epochs, "steps": STEPS * epochs}


# The data of the measurement have no gaps; where there are some, ``neighbours-pretrain`` and
# ``neighbours`` are phases too, and a step of ``cluster`` is another one.
PLAIN = PlainVersion("dsimvc", {"pretrain": pretrain, "cluster": cluster}, schedule)
