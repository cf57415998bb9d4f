"""Batches by the number of the step, for methods that count steps and not epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import count

import torch

from dwcl.training.batches import Batch, Source, joined


class Endless:
    """Passes over a source, each in an order of its own, joined end to end and cut into batches.

    Parameters
    ----------
    source : Source
        The samples.
    batch_size : int
        Of every batch; where the source has fewer samples, a batch has all of them.
    generator : callable
        From the number of a pass (from 1) to the randomness of its order.
    """

    def __init__(
        self, source: Source, batch_size: int, generator: Callable[[int], torch.Generator]
    ) -> None:
        self.size = min(batch_size, source.n_samples)
        self._source = source
        self._generator = generator
        self._drawn = 0
        self._stream = self._batches()

    def steps(self, start: int, stop: int) -> Iterator[Batch]:
        """Yield the batches of the steps from `start` (0 is the first one) to before `stop`.

        To go on where the last call ended costs nothing; to go elsewhere, all that lies before is
        drawn again.
        """
        if start < self._drawn:
            self._drawn, self._stream = 0, self._batches()
        while self._drawn < stop:
            batch = next(self._stream)
            self._drawn += 1
            if self._drawn > start:
                yield batch

    def _batches(self) -> Iterator[Batch]:
        rest: Batch | None = None
        for turn in count(1):
            for batch in self._source.epoch(self.size, self._generator(turn)):
                rest = batch if rest is None else joined(rest, batch)
                if len(rest) < self.size:
                    continue
                yield _rows(rest, slice(self.size))
                rest = None if len(rest) == self.size else _rows(rest, slice(self.size, None))


def _rows(batch: Batch, rows: slice) -> Batch:
    return Batch([view[rows] for view in batch.views], batch.index[rows])


def by_steps(
    draws: Sequence[Endless], steps: int, per_epoch: int
) -> Callable[[int], Iterator[Batch]]:
    """Count steps in epochs, for the `batches` of a phase: batches of all draws, one under another.

    Parameters
    ----------
    draws : sequence of Endless
        Where the parts of a batch come from.
    steps : int
        In all; the last epoch may have fewer than the others.
    per_epoch : int
        So many steps are an epoch.
    """

    def batches(epoch: int) -> Iterator[Batch]:
        start = (epoch - 1) * per_epoch
        stop = min(start + per_epoch, steps)
        for parts in zip(*(draw.steps(start, stop) for draw in draws), strict=True):
            yield reduce(joined, parts)

    return batches
