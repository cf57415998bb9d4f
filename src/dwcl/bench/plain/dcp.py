"""DCP in plain eager PyTorch: joint distributions pair by pair, predictors one by one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from dwcl.bench.plain import Epoch, PlainVersion
from dwcl.bench.plain._parts import in_batches

LEAST = torch.finfo(torch.float64).eps


def information_loss(a: Tensor, c: Tensor, entropy_weight: float) -> Tensor:
    """Negative mutual information of two codes (b × L), less the entropies of their margins."""
    joint = a.T @ c
    joint = (joint + joint.T) / 2
    joint = joint / joint.sum()
    rows = joint.sum(1, keepdim=True).clamp(min=LEAST)
    columns = joint.sum(0, keepdim=True).clamp(min=LEAST)
    joint = joint.clamp(min=LEAST)
    margins = entropy_weight * rows.log() + entropy_weight * columns.log()
    return -(joint * (joint.log() - margins)).sum()


def compared_pairs(n_views: int, mode: str) -> tuple[list[tuple[int, int]], int]:
    """List the pairs that are compared, and state what their sum is divided by."""
    if mode == "core" or n_views == 2:
        return [(0, w) for w in range(1, n_views)], max(n_views - 1, 1)
    return list(combinations(range(n_views), 2)), n_views


def learn(model: Any, networks: nn.Module, views: Sequence[Tensor], *, predicts: bool) -> Epoch:
    """Make the epoch before the codes learn to predict each other, or the one when they do."""
    nets: Any = networks
    pairs, divisor = compared_pairs(len(views), model.mode)

    def prediction(codes: list[Tensor], v: int, w: int) -> Tensor:
        return functional.mse_loss(nets.predictors[f"{v}-{w}"](codes[v]).softmax(1), codes[w])

    def loss(xs: list[Tensor]) -> Tensor:
        codes = [encoder(x).softmax(1) for encoder, x in zip(nets.encoders, xs, strict=True)]
        rebuilt = torch.zeros(())
        for x, h, decoder in zip(xs, codes, nets.decoders, strict=True):
            rebuilt = rebuilt + functional.mse_loss(decoder(h), x)
        total: Tensor = model.reconstruction_weight / max(len(xs) - 2, 1) * rebuilt
        for v, w in pairs:
            weight = 1.0 if (v, w) == (0, 1) else model.side_weight
            told = information_loss(codes[v], codes[w], model.entropy_weight)
            total = total + weight * told / divisor
        for v, w in pairs:
            # The predictors run from the first epoch on, so that their running figures move.
            with torch.set_grad_enabled(predicts):
                missed = prediction(codes, v, w) + prediction(codes, w, v)
            if predicts:
                total = total + model.prediction_weight * missed / divisor
        return total

    return in_batches(model, networks, views, loss)


def schedule(epochs: int) -> dict[str, Any]:
    """Let prediction begin halfway."""
    return {"epochs": 2 * epochs, "prediction_start": epochs}


PLAIN = PlainVersion(
    "dcp",
    {"contrast": partial(learn, predicts=False), "prediction": partial(learn, predicts=True)},
    schedule,
)
