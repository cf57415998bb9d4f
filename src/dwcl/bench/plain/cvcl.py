"""CVCL in plain eager PyTorch: the classifier view by view, clusters compared pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from dwcl.bench.plain import Epoch, PlainVersion
from dwcl.bench.plain._parts import in_batches, partner_contrast
from dwcl.methods.cvcl import AssigningNetworks


def sharpened(q: Tensor) -> Tensor:
    """Square assignments (b × k) by the mass of their clusters, rows brought back to 1."""
    weighed = q**2 / q.sum(0)
    return weighed / weighed.sum(1, keepdim=True)


def negative_entropy(t: Tensor) -> Tensor:
    """Negative entropy of the sizes of the clusters (b × k)."""
    size = t.sum(0) / t.sum()
    return (size * size.log()).sum()


def column_contrast(t_v: Tensor, t_w: Tensor, temperature: float, *, cosine: bool) -> Tensor:
    """Contrast the columns of two views' assignments (b × k): the mean of the 2k clusters."""
    v, w = t_v.T, t_w.T
    if cosine:
        v, w = (functional.normalize(columns, dim=1, eps=1e-8) for columns in (v, w))
    return partner_contrast(v, w, temperature)


def pretrain(model: Any, networks: nn.Module, views: Sequence[Tensor]) -> Epoch:
    """Make the epoch on reconstruction alone, with a ReLU at both ends."""
    assigning = cast(AssigningNetworks, networks)

    def loss(xs: list[Tensor]) -> Tensor:
        total = torch.zeros(())
        for x, autoencoder in zip(xs, assigning.each(), strict=True):
            h = autoencoder.encoder(x).relu()
            total = total + functional.mse_loss(autoencoder.decoder(h).relu(), x)
        return total

    return in_batches(model, networks, views, loss)


def contrast(model: Any, networks: nn.Module, views: Sequence[Tensor]) -> Epoch:
    """Make the epoch on reconstruction, contrast of clusters, and entropy."""
    assigning = cast(AssigningNetworks, networks)
    in_batch = min(model.batch_size, len(views[0]))
    cosine = {"cosine": True, "dot": False}.get(model.similarity, in_batch >= 10 * model.n_clusters)

    def loss(xs: list[Tensor]) -> Tensor:
        total = torch.zeros(())
        ts, entropies = [], []
        for x, autoencoder in zip(xs, assigning.each(), strict=True):
            h = autoencoder.encoder(x).relu()
            total = total + functional.mse_loss(autoencoder.decoder(h).relu(), x)
            ts.append(sharpened(assigning.classifier(h).softmax(1)))
            entropies.append(negative_entropy(ts[-1]))
        for v, w in combinations(range(len(xs)), 2):
            apart = column_contrast(ts[v], ts[w], model.temperature, cosine=cosine)
            entropy = entropies[v] + entropies[w]
            total = total + model.contrast_weight * apart + model.entropy_weight * entropy
        return total

    return in_batches(model, networks, views, loss)


def schedule(epochs: int) -> dict[str, Any]:
    """Run both phases: these auto-encoders are not the usual ones."""
    return {"pretrain_epochs": epochs, "epochs": epochs}


PLAIN = PlainVersion("cvcl", {"pretrain": pretrain, "contrast": contrast}, schedule)
