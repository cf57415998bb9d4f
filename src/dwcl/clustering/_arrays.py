"""What the files of this room share: checks of their input, blocks of rows, exact products."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from dwcl.errors import DataError, SettingError

BLOCK_ELEMENTS = 2**17
"""Entries of a block of products: about what stays in a core's cache (half a MB in float32)."""
COPIED_ELEMENTS = 2**22
"""Entries of a block that is copied: 32 MB in float64, so that large tables leave some memory."""


def as_points(x: Tensor, what: str = "samples") -> Tensor:
    """Return x (n × d) cut off from its graph, in float32 or float64, once it is fit for use."""
    if x.ndim != 2 or 0 in x.shape:
        raise DataError(
            f"The {what} have shape {tuple(x.shape)}; a table of rows × features (2-D) with at "
            "least one row and one feature is expected."
        )
    if x.is_complex():
        raise DataError(f"Complex data not supported: the {what} have type {x.dtype}.")
    points = x.detach()
    if points.dtype not in (torch.float32, torch.float64):
        points = points.to(torch.float32 if points.is_floating_point() else torch.float64)
    if not all(bool(block.isfinite().all()) for block in points.split(entry_rows(points))):
        row, column = ((~points.isfinite()).nonzero()[0]).tolist()
        raise DataError(
            f"The {what} hold the value {float(points[row, column])} (row {row}, column {column}); "
            "finite numbers are expected. Remove or fill such entries first."
        )
    return points


def standard_position(points: Tensor) -> tuple[Tensor, Tensor, float]:
    """Move the mean to the origin and the greatest entry near 1; return shift and scale, too.

    Neither changes which distance is the greater, but both keep it exact: rounding errors grow
    with the offset, and squares of very small or very great numbers leave the range of float32.
    The scale is a power of two, so that no digit changes.
    """
    shift = points.mean(0)
    centred = points - shift
    scale = 2.0 ** math.frexp(float(torch.linalg.vector_norm(centred, torch.inf)))[1]
    return centred.div_(scale), shift, scale


def entry_rows(points: Tensor) -> int:
    """Rows of a block of points (n × d) that may be copied: fewer where they are wide."""
    return max(1, COPIED_ELEMENTS // points.shape[1])


def row_squares(points: Tensor) -> Tensor:
    """Squared lengths (n) of the rows, without a copy of all points (n × d)."""
    return torch.cat([block.square().sum(1) for block in points.split(entry_rows(points))])


def row_blocks(n: int, size: int) -> Iterator[slice]:
    """Cut n rows into consecutive blocks of at most `size` rows."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def block_size(width: int, block_rows: int | None) -> int:
    """Rows of a block whose products with `width` others stay in the cache, unless it is given."""
    if block_rows is None:
        return max(256, BLOCK_ELEMENTS // width)
    if block_rows < 1:
        raise SettingError(f"block_rows = {block_rows}; a block has at least one row.")
    return block_rows


@contextmanager
def exact_products(device: torch.device) -> Iterator[None]:
    """Compute matrix products in the type of their operands and record no gradients.

    Networks may be trained with products of lower precision, by autocast or by a setting of the
    process. A squared distance is a small difference of large products, which such a precision
    leaves without a single correct digit; so both are suspended here and restored afterwards.
    """
    with torch.no_grad(), torch.autocast(device.type, enabled=False), _full_precision(device):
        yield


@contextmanager
def _full_precision(device: torch.device) -> Iterator[None]:
    products = _product_settings(device)
    if products is not None:
        setting = products.fp32_precision
        products.fp32_precision = "ieee"
        try:
            yield
        finally:
            products.fp32_precision = setting
        return
    level = torch.get_float32_matmul_precision()  # torch before 2.9: one setting for all devices
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(level)


def _product_settings(device: torch.device) -> Any:
    """Torch's settings for products on a device, None where this version has none of its own."""
    backend = torch.backends.cuda if device.type == "cuda" else torch.backends.mkldnn
    products = getattr(backend, "matmul", None)
    return products if hasattr(products, "fp32_precision") else None
