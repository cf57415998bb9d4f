"""What methods with a label head end with: it learns the clusters that k-means finds by view."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor

from dwcl.clustering.matching import align_labels
from dwcl.clustering.pseudo_labels import pseudo_labels
from dwcl.losses import pseudo_label_loss
from dwcl.methods.base import Run
from dwcl.nn import LevelNetworks
from dwcl.training.batches import Batch
from dwcl.training.features import embed
from dwcl.training.loop import LossTerms
from dwcl.views import between_views

FinetuneLoss: TypeAlias = Literal["double-softmax", "log"]
"""Cross-entropy with the probabilities in the place of logits, or with their logarithms."""


def finetune(run: Run, epochs: int, *, n_init: int, loss: FinetuneLoss) -> dict[str, Any]:
    """Let the label head learn the pseudo-labels; returns fitted attributes of the method.

    The features of each view are clustered once. An epoch is one step on all samples: the clusters
    of each view are named after the labels that the view has at the time, and these are then what
    it shall have. Decoders and feature head have no part in it.
    """
    networks = cast(LevelNetworks, run.networks)
    found: dict[str, Any] = {}
    if epochs:
        found = run.trainer.once("pseudo-labels", partial(_pseudo_labels, run, n_init))
        run.trainer.phase(
            "finetune",
            epochs,
            partial(label_terms, networks, loss),
            refresh=lambda _: {"labels": matched(run, found["labels"])},
            whole=True,
        )
    agreement = run.trainer.once("agreement", partial(_agreement, run))["agreement"]
    by_view = [labels.cpu().numpy() for labels in found.get("labels", [])]
    return {
        "pseudo_labels_": dict(zip(run.view_names, by_view, strict=False)),
        "view_agreement_": agreement,
    }


def label_terms(
    networks: LevelNetworks, loss: FinetuneLoss, batch: Batch, labels: Tensor
) -> LossTerms:
    """Σ cross-entropy of the views' soft assignments with labels of all samples (V × n)."""
    qs = networks.assign(networks.encode(batch.views))
    wanted = list(labels[:, batch.index])
    rows = pseudo_label_loss(qs, wanted, as_logits=loss == "double-softmax")
    by_view = rows.mean(dim=1)
    parts = {"pseudo_label": by_view}
    if len(qs) > 1:
        tops = [q.argmax(dim=1) for q in qs]
        parts["agreement"] = torch.stack([_equal(a, b) for a, b in combinations(tops, 2)])
    return LossTerms(by_view.sum(), parts)


def matched(run: Run, labels: Tensor) -> Tensor:
    """Name the clusters of each view (V × n) after the labels that it has most in common with."""
    pairs = zip(view_labels(run).cpu(), labels.cpu(), strict=True)
    aligned = [align_labels(own, found, run.n_clusters) for own, found in pairs]
    return torch.from_numpy(np.stack(aligned)).to(labels.device)


def view_labels(run: Run) -> Tensor:
    """Label all samples by each view's own soft assignment, V × n."""
    networks = cast(LevelNetworks, run.networks)

    def greatest(xs: list[Tensor]) -> list[Tensor]:
        return [q.argmax(dim=1) for q in networks.assign(networks.encode(xs))]

    return torch.stack(embed(networks, run.source, greatest))


def _pseudo_labels(run: Run, n_init: int) -> dict[str, Any]:
    """Cluster the features of each view (V × n)."""
    networks = cast(LevelNetworks, run.networks)

    def features(xs: list[Tensor]) -> list[Tensor]:
        return networks.project(networks.encode(xs))

    with run.features(features) as zs:
        found = [
            pseudo_labels(
                z,
                run.n_clusters,
                n_init=n_init,
                generator=run.streams.torch("kmeans", "pseudo-labels", name),
                budget=run.memory.exact,
            )
            for name, z in zip(run.view_names, zs, strict=True)
        ]
    return {"labels": torch.stack(found)}


def _agreement(run: Run) -> dict[str, Any]:
    """Put on record which share of the samples each two views label alike (V × V)."""

    def share(one: Tensor, other: Tensor) -> float:
        return float(_equal(one, other))

    table = between_views(list(view_labels(run)), share, 1.0)
    found = {"agreement": [list(row) for row in table]}
    run.trainer.record({"event": "agreement", "views": list(run.view_names), **found})
    return found


def _equal(one: Tensor, other: Tensor) -> Tensor:
    return (one == other).float().mean()
