"""What networks make of all samples: in memory, or in files where that would be too much."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from dwcl.clustering.tables import Table
from dwcl.data.ondisk import FileTable
from dwcl.files import unwritable
from dwcl.training.batches import Source

Forward: TypeAlias = Callable[[list[Tensor]], Sequence[Tensor]]
"""From the views of a block of samples to one or more tensors with a row per sample."""

# Rows that go through the networks at once when nothing is learnt. Every block has this many, the
# last one filled up with zeros: the matrix products then have one shape, whatever the number of
# samples, and a sample's embedding does not depend on which samples it came with (but for the last
# bit, by its place in a block, where layers are narrow).
EMBEDDING_ROWS = 256


def embedded_blocks(
    networks: nn.Module, source: Source, forward: Forward
) -> Iterator[list[Tensor]]:
    """Send all samples through `forward` in their order, without gradients, in single precision.

    Parameters
    ----------
    networks : torch.nn.Module
        What `forward` uses; put into evaluation mode.
    source : Source
        The samples.
    forward : callable
        From the views of a block to one or more tensors with a row per sample.

    Yields
    ------
    list of Tensor
        The outputs of `forward` for a block of consecutive samples.
    """
    networks.eval()
    for block in source.blocks(EMBEDDING_ROWS):
        rows = len(block[0])
        missing = EMBEDDING_ROWS - rows
        filled = [functional.pad(x, (0, 0, 0, missing)) for x in block] if missing else block
        with torch.no_grad():
            yield [out[:rows] for out in forward(filled)]


def embed(networks: nn.Module, source: Source, forward: Forward) -> list[Tensor]:
    """Collect what :func:`embedded_blocks` yields: the outputs of `forward`, n rows each."""
    return _filled(embedded_blocks(networks, source, forward), source.n_samples)


def _filled(blocks: Iterable[list[Tensor]], n_samples: int) -> list[Tensor]:
    """Put blocks into tables of n rows as they come, so that nothing is held twice."""
    tables: list[Tensor] = []
    start = 0
    for block in blocks:
        tables = tables or [out.new_empty(n_samples, *out.shape[1:]) for out in block]
        stop = start + len(block[0])
        for table, out in zip(tables, block, strict=True):
            table[start:stop] = out
        start = stop
    return tables


@contextmanager
def feature_tables(
    networks: nn.Module, source: Source, forward: Forward, *, budget: int
) -> Iterator[list[Table]]:
    """Hold the outputs of `forward` for all samples: as tensors up to a budget, else in files.

    Parameters
    ----------
    networks, source, forward
        As for :func:`embedded_blocks`.
    budget : int
        Bytes of all outputs together up to which they are held in memory.

    Yields
    ------
    list of Table
        The outputs, n rows each. Files are gone when the context ends; until then they lie in the
        folder for temporary files, which the variable TMPDIR names.
    """
    blocks = embedded_blocks(networks, source, forward)
    first = next(blocks)
    width = sum(out.shape[1] for out in first)
    if 4 * source.n_samples * width <= budget:
        yield [*_filled(itertools.chain([first], blocks), source.n_samples)]
        return
    with tempfile.TemporaryDirectory(prefix="dwcl-features-") as folder:
        paths = [Path(folder) / str(position) for position in range(len(first))]
        with ExitStack() as opened:
            files = [opened.enter_context(path.open("wb")) for path in paths]
            _write(files, first, Path(folder))
            for block in blocks:
                _write(files, block, Path(folder))
        yield [
            FeatureFile(path, source.n_samples, out.shape[1], out.device)
            for path, out in zip(paths, first, strict=True)
        ]


def _write(files: Sequence[Any], block: Sequence[Tensor], folder: Path) -> None:
    try:
        for file, out in zip(files, block, strict=True):
            file.write(out.float().cpu().contiguous().numpy().data)
    except OSError as failure:
        raise unwritable(folder, failure) from failure


class FeatureFile:
    """A table of features (n × d) in a file, in single precision."""

    def __init__(self, path: Path, n_samples: int, width: int, device: torch.device) -> None:
        self.shape = (n_samples, width)
        self._device = device
        self._table = FileTable(path, 0, self.shape, np.dtype(np.float32))

    def __getitem__(self, rows: Any) -> Tensor:
        chosen = rows.cpu().numpy() if isinstance(rows, Tensor) else rows
        return torch.from_numpy(self._table[chosen]).to(self._device)

    def __len__(self) -> int:
        return self.shape[0]
