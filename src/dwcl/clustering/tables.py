"""Tables of features that need not lie in memory: what k-means and silhouette ask of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor


class Table(Protocol):
    """Features (n × d) of which rows can be had: a tensor, or what reads them from the disk."""

    @property
    def shape(self) -> Any:
        """Return n and d."""

    def __getitem__(self, rows: Any, /) -> Tensor:
        """Return a slice of rows, or the rows at given positions (a tensor)."""

    def __len__(self) -> int:
        """Return n."""


class JoinedTable:
    """Several tables side by side, joined only where rows are asked for."""

    def __init__(self, parts: Sequence[Table]) -> None:
        self.parts = list(parts)
        self.shape = (len(self.parts[0]), sum(part.shape[1] for part in self.parts))

    def __getitem__(self, rows: Any) -> Tensor:
        return torch.cat([part[rows] for part in self.parts], dim=1)

    def __len__(self) -> int:
        return int(self.shape[0])


def joined(parts: Sequence[Table]) -> Table:
    """Put tables side by side: in memory if all of them are there."""
    tensors = [part for part in parts if isinstance(part, Tensor)]
    return torch.cat(tensors, dim=1) if len(tensors) == len(parts) else JoinedTable(parts)


def nbytes(table: Table) -> int:
    """Size of a table in single precision."""
    return 4 * int(table.shape[0]) * int(table.shape[1])
