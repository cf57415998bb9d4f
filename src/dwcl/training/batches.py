"""The data of a fit, in batches: from memory, or read as they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

Fill: TypeAlias = Callable[[int, Tensor], None]
"""Writes consecutive samples of a view, from a position on, into a block (b × d_v)."""

STRETCHES = 64
"""A window is put together from about so many stretches of the data."""
FEWEST_ROWS = 256
"""A window has so many rows at least, whatever memory they take."""


@dataclass(frozen=True)
class Batch:
    """The same b samples in every view (b × d_v each), and their positions in the data (b)."""

    views: list[Tensor]
    index: Tensor

    def __len__(self) -> int:
        return len(self.index)


class Source(Protocol):
    """Where batches come from."""

    n_samples: int
    index: Tensor | None
    """Positions of its samples in the data, in their order; None: all of them."""

    def epoch(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        """Yield every sample once, in random order; the last batch may be short."""
        ...

    def blocks(self, rows: int) -> Iterator[list[Tensor]]:
        """Yield the samples in their order, `rows` at a time."""
        ...


class InMemory:
    """Views that lie in memory as tensors.

    An epoch permutes each view once and hands out slices of the result: a gather by batch, let
    alone a data loader, costs more than the small layers that it would feed.

    Parameters
    ----------
    views : sequence of Tensor, n × d_v
        The views.
    index : Tensor of int64, optional
        Positions of the samples that are taken; all, if not given.
    """

    def __init__(self, views: Sequence[Tensor], index: Tensor | None = None) -> None:
        self.views = list(views)
        self.index = index
        self.n_samples = len(self.views[0] if index is None else index)

    def epoch(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        """Yield every sample once, in random order; the last batch may be short."""
        order = torch.randperm(self.n_samples, generator=generator)
        order = order.to(self.views[0].device)
        order = order if self.index is None else self.index[order]
        shuffled = [view.index_select(0, order) for view in self.views]
        for start in range(0, self.n_samples, batch_size):
            stop = start + batch_size
            yield Batch([view[start:stop] for view in shuffled], order[start:stop])

    def blocks(self, rows: int) -> Iterator[list[Tensor]]:
        """Yield the samples in their order, `rows` at a time."""
        for start in range(0, self.n_samples, rows):
            chosen = slice(start, start + rows)
            yield [
                view[chosen if self.index is None else self.index[chosen]] for view in self.views
            ]


class Streamed:
    """Views that are read, and brought into their final form, as they are needed.

    A disk serves long stretches of rows far faster than single rows in random order. So an epoch
    puts windows together from many short stretches in random order, and permutes the rows inside a
    window: two samples that are neighbours in the data still meet in a batch more often than
    others, but a batch holds samples from all over the data. The next window is read, in a thread
    of its own, while the one at hand is used.

    Parameters
    ----------
    fills : sequence of Fill
        One for each view.
    n_samples : int
        Number of samples n.
    widths : sequence of int
        Number of features of each view.
    window_bytes : int
        Memory of a window in single precision; two of them are held.
    device : torch.device
        Where the batches go.
    """

    index: Tensor | None = None

    def __init__(
        self,
        fills: Sequence[Fill],
        n_samples: int,
        widths: Sequence[int],
        *,
        window_bytes: int,
        device: torch.device | None = None,
    ) -> None:
        self.n_samples = n_samples
        self._fills = list(fills)
        self._widths = list(widths)
        self._device = device or torch.device("cpu")
        rows = min(max(window_bytes // (4 * sum(self._widths)), FEWEST_ROWS), n_samples)
        self.rows_of_stretch = max(1, rows // STRETCHES)
        self._stretches_of_window = rows // self.rows_of_stretch

    def epoch(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        """Yield every sample once, in random order; the last batch may be short."""
        rest = Batch([torch.empty(0, d) for d in self._widths], torch.empty(0, dtype=torch.int64))
        for window in self._windows(generator):
            order = torch.randperm(len(window), generator=generator)
            missing = batch_size - len(rest)
            # What was left of the window before goes first; it was copied out of its memory.
            rest = joined(rest, _picked(window, order[:missing]))
            if len(rest) < batch_size:
                continue
            yield self._placed(rest)
            begin = missing
            while begin + batch_size <= len(window):
                yield self._placed(_picked(window, order[begin : begin + batch_size]))
                begin += batch_size
            rest = _picked(window, order[begin:])
        if len(rest):
            yield self._placed(rest)

    def blocks(self, rows: int) -> Iterator[list[Tensor]]:
        """Yield the samples in their order, `rows` at a time."""
        starts = range(0, self.n_samples, rows)
        spans = [[(start, min(start + rows, self.n_samples))] for start in starts]
        for window in self._read_ahead(spans, rows):
            yield [view.to(self._device) for view in window.views]

    def _windows(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yield windows of rows; each is used up before the next one is asked for."""
        size = self.rows_of_stretch
        starts = torch.arange(0, self.n_samples, size)
        starts = starts[torch.randperm(len(starts), generator=generator)]
        windows = [
            # In the order of the data, as a disk reads best; the rows are permuted later.
            [(start, min(start + size, self.n_samples)) for start in chosen.sort().values.tolist()]
            for chosen in starts.split(self._stretches_of_window)
        ]
        yield from self._read_ahead(windows, size * self._stretches_of_window)

    def _read_ahead(self, windows: Sequence[list[tuple[int, int]]], rows: int) -> Iterator[Batch]:
        """Read window after window into two places in turns, one ahead of what is used."""
        places = [[torch.empty(rows, d) for d in self._widths] for _ in range(2)]
        with ThreadPoolExecutor(1, thread_name_prefix="dwcl-reading") as reader:
            ahead: Future[Batch] = reader.submit(self._read, windows[0], places[0])
            for position in range(1, len(windows) + 1):
                window = ahead.result()
                if position < len(windows):
                    ahead = reader.submit(self._read, windows[position], places[position % 2])
                yield window

    def _read(self, spans: list[tuple[int, int]], places: Sequence[Tensor]) -> Batch:
        filled = 0
        for start, stop in spans:
            for fill, place in zip(self._fills, places, strict=True):
                fill(start, place[filled : filled + stop - start])
            filled += stop - start
        index = torch.cat([torch.arange(start, stop) for start, stop in spans])
        return Batch([place[:filled] for place in places], index)

    def _placed(self, batch: Batch) -> Batch:
        return Batch([view.to(self._device) for view in batch.views], batch.index.to(self._device))


class Chosen:
    """Some of the samples of another source, which is gone through as a whole.

    Parameters
    ----------
    source : Source
        Has all samples.
    index : Tensor of int64
        Positions of those that are taken, ascending.
    """

    def __init__(self, source: Source, index: Tensor) -> None:
        self.source = source
        self.index: Tensor | None = index
        self.n_samples = len(index)
        self._taken = torch.zeros(source.n_samples, dtype=torch.bool)
        self._taken[index] = True

    def epoch(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        """Yield every chosen sample once, in random order; the last batch may be short."""
        yield from self._filtered(self.source.epoch(batch_size, generator), batch_size)

    def blocks(self, rows: int) -> Iterator[list[Tensor]]:
        """Yield the chosen samples in their order, `rows` at a time."""
        batches = self._numbered(self.source.blocks(rows))
        yield from (batch.views for batch in self._filtered(batches, rows))

    def _numbered(self, blocks: Iterator[list[Tensor]]) -> Iterator[Batch]:
        start = 0
        for views in blocks:
            stop = start + len(views[0])
            yield Batch(views, torch.arange(start, stop, device=views[0].device))
            start = stop

    def _filtered(self, batches: Iterator[Batch], size: int) -> Iterator[Batch]:
        """Leave out what is not chosen, and fill the gaps up with what follows."""
        rest: Batch | None = None
        for batch in batches:
            kept = self._taken[batch.index.cpu()].nonzero()[:, 0]
            found = _picked(batch, kept.to(batch.index.device))
            rest = found if rest is None else joined(rest, found)
            if len(rest) >= size:  # two batches can never be full at once
                yield Batch([view[:size] for view in rest.views], rest.index[:size])
                rest = Batch([view[size:] for view in rest.views], rest.index[size:])
        if rest is not None and len(rest):
            yield rest


def choose(source: Source, index: Tensor) -> Source:
    """Return a source of some samples of another one, for example of those that are complete.

    Parameters
    ----------
    source : Source
        Has all samples. If it is a choice itself, the new one is made from the same whole.
    index : Tensor of int64
        Positions of those that are wanted in the whole, without repeats, in any order. Batches
        tell these positions.
    """
    index = index.cpu().sort().values
    if isinstance(source, Chosen):
        source = source.source
    if isinstance(source, InMemory):
        return InMemory(source.views, index.to(source.views[0].device))
    return Chosen(source, index)


def _picked(window: Batch, rows: Tensor) -> Batch:
    return Batch([view.index_select(0, rows) for view in window.views], window.index[rows])


def joined(first: Batch, second: Batch) -> Batch:
    """Put two batches together."""
    if not len(first):
        return second
    views = [torch.cat(pair) for pair in zip(first.views, second.views, strict=True)]
    return Batch(views, torch.cat([first.index, second.index]))
