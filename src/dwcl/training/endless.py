"""Batches by the number of the step, for methods that count steps and not epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
        self._source = source
        self._size = min(batch_size, source.n_samples)
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
            for batch in self._source.epoch(self._size, self._generator(turn)):
                rest = batch if rest is None else joined(rest, batch)
                if len(rest) < self._size:
                    continue
                yield _rows(rest, slice(self._size))
                rest = None if len(rest) == self._size else _rows(rest, slice(self._size, None))


def _rows(batch: Batch, rows: slice) -> Batch:
    return Batch([view[rows] for view in batch.views], batch.index[rows])
