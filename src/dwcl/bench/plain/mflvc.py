"""MFLVC in plain eager PyTorch: heads view by view, losses pair by pair, one step to fine-tune."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any, cast

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.nn import functional

from dwcl.bench.plain import Epoch, PlainVersion
from dwcl.bench.plain._parts import adam, in_batches, partner_contrast
from dwcl.nn import LevelNetworks


def label_contrast(q_v: Tensor, q_w: Tensor, temperature: float) -> Tensor:
    """Contrast the columns of two views' assignments (b × k), and weigh how uneven both are."""
    v, w = (functional.normalize(q.T, dim=1, eps=1e-8) for q in (q_v, q_w))
    return partner_contrast(v, w, temperature) + unevenness(q_v) + unevenness(q_w)


def unevenness(q: Tensor) -> Tensor:
    """Fall of the entropy of the clusters' sizes (b × k) below that of equal ones."""
    size = q.mean(0)
    return math.log(len(size)) + (size * size.log()).sum()


def contrast(model: Any, networks: nn.Module, views: Sequence[Tensor]) -> Epoch:
    """Make the epoch on reconstruction and on both contrasts."""
    levels = cast(LevelNetworks, networks)

    def loss(xs: list[Tensor]) -> Tensor:
        total = torch.zeros(())
        zs, qs = [], []
        for x, autoencoder in zip(xs, levels.each(), strict=True):
            h = autoencoder.encoder(x)
            zs.append(functional.normalize(levels.feature_head(h), dim=1))
            qs.append(levels.label_head(h).softmax(1))
            total = total + functional.mse_loss(autoencoder.decoder(h), x)
        for v, w in combinations(range(len(xs)), 2):
            total = total + partner_contrast(zs[v], zs[w], model.temperature)
            total = total + label_contrast(qs[v], qs[w], model.label_temperature)
        return total

    return in_batches(model, networks, views, loss)


def start_labels(n_samples: int, n_clusters: int) -> Tensor:
    """Stand in for the clusters that k-means finds in a view: no time depends on them."""
    return torch.arange(n_samples) % n_clusters


def named_after(labels: Tensor, clusters: Tensor, n_clusters: int) -> Tensor:
    """Name clusters (n) by the one-to-one matching with labels (n) that agrees most often."""
    counts = torch.bincount(labels * n_clusters + clusters, minlength=n_clusters**2)
    rows, columns = linear_sum_assignment(counts.view(n_clusters, n_clusters), maximize=True)
    names = torch.empty(n_clusters, dtype=torch.int64)
    names[columns] = torch.from_numpy(rows)
    return names[clusters]


def finetune(model: Any, networks: nn.Module, views: Sequence[Tensor]) -> Epoch:
    """Make the step on all samples that fits the assignments to pseudo-labels."""
    levels = cast(LevelNetworks, networks)
    optimiser = adam(networks, model.learning_rate)
    clusters = start_labels(len(views[0]), model.n_clusters)

    def epoch() -> float:
        networks.train()
        loss = torch.zeros(())
        for x, autoencoder in zip(views, levels.each(), strict=True):
            q = levels.label_head(autoencoder.encoder(x)).softmax(1)
            wanted = named_after(q.argmax(1), clusters, model.n_clusters)
            # Probabilities in the place of logits, as the reference has them.
            loss = loss + functional.cross_entropy(q, wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()

    return epoch


def schedule(epochs: int) -> dict[str, Any]:
    """Leave the pre-training out, which is that of any auto-encoders."""
    return {"pretrain_epochs": 0, "epochs": epochs, "finetune_epochs": epochs}


PLAIN = PlainVersion("mflvc", {"contrast": contrast, "finetune": finetune}, schedule)
