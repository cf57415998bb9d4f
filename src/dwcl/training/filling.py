"""Samples whose missing views are filled in by means over other samples that have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from dwcl.training.batches import Batch, Source, choose

ROWS = 1024
"""Rows that are read at once to add up means."""


class Filled:
    """A source in whose samples rows of some views are replaced.

    Parameters
    ----------
    source : Source
        The samples, or some of them.
    n_samples : int
        Of the whole data, which the batches' positions refer to.
    lacking : sequence of Tensor of c_v
        Positions of the samples whose row in view v is replaced (int64).
    values : sequence of Tensor, c_v × d_v
        What takes its place.
    """

    def __init__(
        self, source: Source, n_samples: int, lacking: Sequence[Tensor], values: Sequence[Tensor]
    ) -> None:
        self.n_samples = source.n_samples
        self.index = source.index
        self._source = source
        self._values = list(values)
        self._place = []  # of each sample among the values of a view, or −1
        for rows, filling in zip(lacking, values, strict=True):
            place = torch.full((n_samples,), -1, dtype=torch.int64, device=filling.device)
            place[rows.to(filling.device)] = torch.arange(len(rows), device=filling.device)
            self._place.append(place)

    def epoch(self, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
        """Yield every sample once, in random order; the last batch may be short."""
        for batch in self._source.epoch(batch_size, generator):
            yield Batch(self._filled(batch.views, batch.index), batch.index)

    def blocks(self, rows: int) -> Iterator[list[Tensor]]:
        """Yield the samples in their order, `rows` at a time."""
        start = 0
        for views in self._source.blocks(rows):
            stop = start + len(views[0])
            index = torch.arange(start, stop, device=views[0].device)
            yield self._filled(views, index if self.index is None else self.index[index])
            start = stop

    def _filled(self, views: Sequence[Tensor], index: Tensor) -> list[Tensor]:
        filled = []
        for x, place, values in zip(views, self._place, self._values, strict=True):
            where = place[index]
            if len(values):
                x = torch.where((where >= 0)[:, None], values[where.clamp(min=0)], x)
            filled.append(x)
        return filled


def filled_in(source: Source, observed: Tensor, donors: Sequence[Tensor]) -> Filled:
    """Return a source of the samples that lack views, with means over others in these.

    Parameters
    ----------
    source : Source
        All samples.
    observed : Tensor of bool, n × V
        Which samples have which views.
    donors : sequence of Tensor, c_v × s
        For each of the c_v samples that lack view v, in the order of the data, whose mean they get;
        see :func:`mean_rows`.
    """
    lacking = choose(source, (~observed.all(1)).nonzero().flatten())
    rows = [(~seen).nonzero().flatten() for seen in observed.T]
    return Filled(lacking, len(observed), rows, mean_rows(source, donors))


def mean_rows(source: Source, donors: Sequence[Tensor]) -> list[Tensor]:
    """Add up means of rows of each view in one pass over the data.

    Parameters
    ----------
    source : Source
        All samples.
    donors : sequence of Tensor, c_v × s
        For each of c_v means in view v, the positions of the samples whose rows it is of (int64);
        −1 is none, and a sample that is named twice counts twice. At least one each.

    Returns
    -------
    list of Tensor, c_v × d_v
    """
    sums: list[Tensor] = []
    wanted = []
    for names in donors:
        order = names.flatten().sort()
        wanted.append((order.values, order.indices // names.shape[1]))
    start = 0
    for views in source.blocks(ROWS):
        stop = start + len(views[0])
        if not sums:
            sums = [
                x.new_zeros(len(names), x.shape[1]) for x, names in zip(views, donors, strict=True)
            ]
        for x, total, (names, means) in zip(views, sums, wanted, strict=True):
            bounds = torch.searchsorted(names, torch.tensor([start, stop]))
            chosen = slice(int(bounds[0]), int(bounds[1]))
            to, rows = means[chosen].to(x.device), (names[chosen] - start).to(x.device)
            total.index_add_(0, to, x[rows])
        start = stop
    for total, names in zip(sums, donors, strict=True):
        total /= (names >= 0).sum(1, keepdim=True).to(total.device)
    return sums
