"""The pre-training of concat-ae and bsv in plain eager PyTorch: one view after another.

Other plain versions begin with the same auto-encoders, so their epoch stands here once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from dwcl.bench.plain import Epoch, PlainVersion
from dwcl.bench.plain._parts import adam, learn, shuffled
from dwcl.nn import AutoEncoders


def pretrain_epochs(
    networks: AutoEncoders,
    views: Sequence[Tensor],
    *,
    batch_size: int,
    learning_rate: float,
    drop_last: bool = False,
) -> Epoch:
    """Make an epoch in which auto-encoders learn to reconstruct their views.

    Parameters
    ----------
    networks : AutoEncoders
        With plain layers.
    views : sequence of Tensor, n × d_v
        All samples.
    batch_size, learning_rate
        As the method has them.
    drop_last : bool
        Whether a short last batch is left out.
    """
    networks.train()
    generator = torch.Generator().manual_seed(0)
    optimiser = adam(networks, learning_rate)

    def loss(index: Tensor) -> Tensor:
        total = torch.zeros(())
        for autoencoder, view in zip(networks.each(), views, strict=True):
            x = view[index]
            total = total + functional.mse_loss(autoencoder.decoder(autoencoder.encoder(x)), x)
        return total

    def epoch() -> float:
        batches = shuffled(len(views[0]), batch_size, generator, drop_last=drop_last)
        return learn(loss, batches, optimiser)

    return epoch


def pretrain(model: Any, networks: nn.Module, views: Sequence[Tensor]) -> Epoch:
    """Make the epoch of pre-training under the settings of a model."""
    return pretrain_epochs(
        cast(AutoEncoders, networks),
        views,
        batch_size=model.batch_size,
        learning_rate=model.learning_rate,
    )


def schedule(epochs: int) -> dict[str, Any]:
    """Pre-train for so many epochs, which is all that these two learn."""
    return {"pretrain_epochs": epochs}


CONCAT_AE = PlainVersion("concat-ae", {"pretrain": pretrain}, schedule)
BSV = PlainVersion("bsv", {"pretrain": pretrain}, schedule)
