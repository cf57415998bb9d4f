"""What several plain versions have in common: the usual epoch, its optimiser, and one loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional

from dwcl.bench.plain import Epoch

BatchLoss: TypeAlias = Callable[[list[Tensor]], Tensor]
"""From the views of a batch (b × d_v each) to its loss."""

_optimisers: WeakKeyDictionary[nn.Module, torch.optim.Adam] = WeakKeyDictionary()


def adam(networks: nn.Module, learning_rate: float) -> torch.optim.Adam:
    """Return the optimiser of some networks: one for all phases, which each make their epochs."""
    if networks not in _optimisers:
        _optimisers[networks] = torch.optim.Adam(networks.parameters(), lr=learning_rate)
    return _optimisers[networks]


def in_batches(model: Any, networks: nn.Module, views: Sequence[Tensor], loss: BatchLoss) -> Epoch:
    """Make an epoch of shuffled batches; a last one that is short is left out, if not the only."""
    optimiser = adam(networks, model.learning_rate)
    generator = torch.Generator().manual_seed(0)

    def epoch() -> float:
        networks.train()
        seen, total = 0, 0.0
        order = torch.randperm(len(views[0]), generator=generator)
        for index in order.split(model.batch_size):
            if seen and len(index) < model.batch_size:
                break
            value = loss([view[index] for view in views])
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            seen += len(index)
            total += value.item() * len(index)
        return total / seen

    return epoch


def partner_contrast(a: Tensor, c: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of each row of a and of c (n × d) with its partner, among all but itself.

    The mean of the 2n rows.
    """
    n = len(a)
    rows = torch.cat([a, c])
    similarity = rows @ rows.T / temperature
    similarity.fill_diagonal_(-torch.inf)
    partners = torch.arange(2 * n).roll(n)
    return functional.cross_entropy(similarity, partners)
