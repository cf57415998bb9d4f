"""What several plain versions have in common: the usual epoch, its optimiser, distances, a loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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


def shuffled(
    n: int, batch_size: int, generator: torch.Generator, *, drop_last: bool = False
) -> list[Tensor]:
    """Deal n positions out to batches in random order; a short last one stays if it is alone."""
    batches = list(torch.randperm(n, generator=generator).split(batch_size))
    if drop_last and len(batches) > 1 and len(batches[-1]) < batch_size:
        batches.pop()
    return batches


def learn(
    loss: Callable[[Tensor], Tensor], batches: Iterable[Tensor], optimiser: torch.optim.Optimizer
) -> float:
    """Take a step on each batch, given by positions, and return the mean loss over the samples."""
    total, seen = 0.0, 0
    for index in batches:
        value = loss(index)
        optimiser.zero_grad()
        torch.autograd.backward(value)
        optimiser.step()
        total += value.item() * len(index)
        seen += len(index)
    return total / seen


def in_batches(model: Any, networks: nn.Module, views: Sequence[Tensor], loss: BatchLoss) -> Epoch:
    """Make an epoch of shuffled batches; a last one that is short is left out, if not the only."""
    optimiser = adam(networks, model.learning_rate)
    generator = torch.Generator().manual_seed(0)

    def of_rows(index: Tensor) -> Tensor:
        return loss([view[index] for view in views])

    def epoch() -> float:
        networks.train()
        batches = shuffled(len(views[0]), model.batch_size, generator, drop_last=True)
        return learn(of_rows, batches, optimiser)

    return epoch


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """Squared distances (b × c) of rows (b × d and c × d), from their products."""
    lengths = (x * x).sum(1)[:, None] + (y * y).sum(1)
    return (lengths - 2 * x @ y.T).clamp(min=0)


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
