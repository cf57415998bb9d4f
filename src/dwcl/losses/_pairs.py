"""What the contrasts of many pairs share: the views in one tensor, the pairs as positions."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Sides(NamedTuple):
    """Positions of the first and the second view of each pair (P each), among those used.

    `alone` and `apart` are the positions of the pairs of a view with itself, and of the others.
    """

    left: Tensor
    right: Tensor
    alone: Tensor
    apart: Tensor


def stacked(zs: Sequence[Tensor], pairs: Sequence[tuple[int, int]]) -> tuple[Tensor, Sides]:
    """Stack the U views that are used (U × b × d), and say where each pair's two stand.

    All blocks of a kind are then one batched product, and a view without a pair is left alone. A
    single view has no pairs: then U and P are 0, and so are sums over pairs.
    """
    used, sides = _sides(tuple(pairs), zs[0].device)
    z = torch.stack([zs[v] for v in used]) if used else zs[0].new_empty((0, *zs[0].shape))
    return z, sides


@functools.lru_cache(maxsize=64)
def _sides(pairs: tuple[tuple[int, int], ...], device: torch.device) -> tuple[list[int], Sides]:
    """List the views that are used, and put the positions of the pairs on a device.

    Once for all steps of a phase: each time, a GPU would have to wait for the copy.
    """
    used = sorted({v for pair in pairs for v in pair})
    left, right = ([used.index(pair[side]) for pair in pairs] for side in (0, 1))
    alone = [p for p, (v, w) in enumerate(pairs) if v == w]
    apart = [p for p, (v, w) in enumerate(pairs) if v != w]
    indices = (
        torch.tensor(i, dtype=torch.int64, device=device) for i in (left, right, alone, apart)
    )
    return used, Sides(*indices)
