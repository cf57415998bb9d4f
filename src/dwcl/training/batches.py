"""The data of a fit, in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """The same b samples in every view (b × d_v each), and their positions in the data (b)."""

    views: list[Tensor]
    index: Tensor

    def __len__(self) -> int:
        return len(self.index)


class InMemory:
    """Views that lie in memory as tensors.

    An epoch permutes each view once and hands out slices of the result: a gather by batch, let
    alone a data loader, costs more than the small layers that it would feed.
    """

    def __init__(self, views: Sequence[Tensor]) -> None:
        self.views = list(views)
        self.n_samples = len(self.views[0])

    def epoch(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        """Yield every sample once, in random order; the last batch may be short."""
        order = torch.randperm(self.n_samples, generator=generator)
        order = order.to(self.views[0].device)
        shuffled = [view.index_select(0, order) for view in self.views]
        for start in range(0, self.n_samples, batch_size):
            stop = start + batch_size
            yield Batch([view[start:stop] for view in shuffled], order[start:stop])

    def blocks(self, rows: int) -> Iterator[list[Tensor]]:
        """Yield the samples in their order, `rows` at a time."""
        for start in range(0, self.n_samples, rows):
            yield [view[start : start + rows] for view in self.views]
