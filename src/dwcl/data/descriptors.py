"""Descriptors of small grey images: each makes one table of features from a stack of images.

All are pure functions of an array of m images of h × w pixels, and return m × d in double
precision. Loops run over bins, orders or neighbours, never over images.
"""

from __future__ import annotations

from math import factorial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dwcl.errors import DataError, SettingError


def pixels(images: ArrayLike) -> NDArray[np.float64]:
    """Grey values, row after row: m × (h w)."""
    stack = _as_stack(images)
    return stack.reshape(len(stack), -1)


def oriented_gradients(
    images: ArrayLike, *, cells: tuple[int, int] = (4, 4), n_bins: int = 8
) -> NDArray[np.float64]:
    r"""Histograms of gradient orientations over a grid of cells, m × (rows · columns · n_bins).

    Gradients are central differences (one-sided at the borders). A pixel with gradient magnitude
    :math:`\rho` and orientation :math:`\theta \in [0, \pi)` — the sign is dropped, so light on
    dark equals dark on light — gives :math:`\rho` to the two bins next to it, shared linearly:

    .. math:: w_b = \rho \, \max(0,\, 1 - \operatorname{dist}(n \theta / \pi,\, b)),

    with the distance taken around the circle of n bins, whose centres are :math:`b \pi / n`. The
    weights are added up in each cell, and the histograms of an image are brought to length 1
    together; an image without any edge stays zero.

    Parameters
    ----------
    images : array-like of shape (m, h, w)
        Grey images of at least 2 × 2 pixels.
    cells : tuple of int
        Rows and columns of the grid; cells differ in size where they do not divide the image.
    n_bins : int
        Number of orientations, at least 2.
    """
    stack = _as_stack(images)
    m, h, w = stack.shape
    rows, columns = cells
    if min(h, w) < 2:
        raise DataError(f"The images have {h} × {w} pixels; gradients need at least 2 × 2.")
    if not (1 <= rows <= h and 1 <= columns <= w):
        raise SettingError(
            f"{rows} × {columns} cells were asked for in images of {h} × {w} pixels; "
            "a cell needs at least one pixel."
        )
    if n_bins < 2:
        raise SettingError(f"{n_bins} orientation bins were asked for; at least 2 are needed.")
    down, across = np.gradient(stack, axis=(1, 2))
    magnitude = np.hypot(down, across)
    # Bins are centred on 0, so that a rounding of 0 to just below π falls into the same bin.
    position = np.mod(np.arctan2(down, across), np.pi) * (n_bins / np.pi)
    top, left = np.arange(rows) * h // rows, np.arange(columns) * w // columns
    histograms = np.empty((m, rows, columns, n_bins))
    for b in range(n_bins):
        distance = np.abs(position - b)
        distance = np.minimum(distance, n_bins - distance)
        weight = magnitude * np.maximum(0.0, 1.0 - distance)  # (m, h, w)
        histograms[..., b] = np.add.reduceat(np.add.reduceat(weight, top, axis=1), left, axis=2)
    features = histograms.reshape(m, -1)
    length = np.linalg.norm(features, axis=1, keepdims=True)
    features /= np.where(length > 0, length, 1.0)
    return features


def fourier_magnitudes(
    images: ArrayLike, *, n_frequencies: int = 3, log: bool = True
) -> NDArray[np.float64]:
    r"""Magnitudes of the low frequencies of the 2-D Fourier transform.

    .. math::

        F(p, q) = \frac{1}{h w} \sum_{y, x} f(y, x)\, e^{-2 \pi i (p y / h + q x / w)}

    for :math:`|p|, |q| \le K`, less the half that repeats the other since f is real: m × d with
    :math:`d = 1 + 2 K (K + 1)`. A circular shift of an image changes phases only, so the magnitudes
    are invariant to it.

    Parameters
    ----------
    images : array-like of shape (m, h, w)
        Grey images.
    n_frequencies : int
        K, below half of the image's shorter side. The order of the features is p = 0 … K for
        q = 0, then p = 0 … K, −K … −1 for q = 1 … K.
    log : bool
        Return log(1 + h w |F|) instead of |F|: the lowest frequencies would drown the others.
    """
    stack = _as_stack(images)
    m, h, w = stack.shape
    k = n_frequencies
    if not 0 <= k <= (min(h, w) - 1) // 2:
        raise SettingError(
            f"{k} frequencies were asked for; images of {h} × {w} pixels have "
            f"0 to {(min(h, w) - 1) // 2}."
        )
    sums = np.abs(np.fft.rfft2(stack))  # (m, h, w // 2 + 1), axes p and q
    low = np.concatenate([sums[:, : k + 1], sums[:, h - k :]], axis=1)  # p = 0 … K, −K … −1
    half = [low[:, : k + 1, 0], low[:, :, 1 : k + 1].transpose(0, 2, 1).reshape(m, -1)]
    features = np.concatenate(half, axis=1)
    described: NDArray[np.float64] = np.log1p(features) if log else features / (h * w)
    return described


def zernike_indices(order: int) -> list[tuple[int, int]]:
    """List the pairs (n, m) of the Zernike polynomials up to an order, 0 ≤ m ≤ n, n − m even."""
    if order < 0:
        raise SettingError(f"The Zernike order is {order}; 0 or more is expected.")
    return [(n, m) for n in range(order + 1) for m in range(n % 2, n + 1, 2)]


def zernike_radial(n: int, m: int, r: ArrayLike) -> NDArray[np.float64]:
    r"""Radial Zernike polynomial.

    .. math::

        R_{nm}(r) = \sum_{s=0}^{(n-m)/2} (-1)^s
            \frac{(n-s)!}{s!\,\left(\frac{n+m}{2}-s\right)!\,\left(\frac{n-m}{2}-s\right)!}
            \; r^{\,n-2s}
    """
    radius = np.asarray(r, dtype=np.float64)
    value = np.zeros_like(radius)
    for s in range((n - m) // 2 + 1):
        below = factorial(s) * factorial((n + m) // 2 - s) * factorial((n - m) // 2 - s)
        value += (-1) ** s * (factorial(n - s) // below) * radius ** (n - 2 * s)
    return value


def zernike_moments(images: ArrayLike, *, order: int = 8) -> NDArray[np.float64]:
    r"""Magnitudes of the Zernike moments up to an order, which a rotation leaves as they are.

    .. math::

        Z_{nm} = \frac{n + 1}{\pi} \sum_{y, x} f(y, x)\, R_{nm}(r_{yx})\, e^{-i m \theta_{yx}}\,
                 \Delta

    for the pairs of :func:`zernike_indices`, with polar coordinates around the image's centre and
    :math:`\Delta` the area of a pixel. The unit circle goes through the corners of the image, so
    that every pixel counts.

    Parameters
    ----------
    images : array-like of shape (b, h, w)
        Grey images.
    order : int
        Highest n. Above 30 the alternating sums of the polynomials lose their digits.
    """
    stack = _as_stack(images)
    b, h, w = stack.shape
    diagonal = np.hypot(h, w)
    y = (2 * np.arange(h) + 1 - h) / diagonal
    x = (2 * np.arange(w) + 1 - w) / diagonal
    r = np.hypot(y[:, None], x[None, :])  # (h, w)
    theta = np.arctan2(y[:, None], x[None, :])
    area = (2 / diagonal) ** 2
    flat = stack.reshape(b, -1)
    magnitudes = []
    for n, m in zernike_indices(order):
        radial = (n + 1) / np.pi * area * zernike_radial(n, m, r)
        real = flat @ (radial * np.cos(m * theta)).ravel()  # (b,)
        imaginary = flat @ (radial * np.sin(m * theta)).ravel()
        magnitudes.append(np.hypot(real, imaginary))
    return np.stack(magnitudes, axis=1)


def profiles(images: ArrayLike, *, threshold: float = 0.5) -> NDArray[np.float64]:
    """Projections and margins of what is drawn, m × 3 (h + w).

    In this order: the mean of each row (h) and of each column (w); the margin at the left and at
    the right of each row (2 h); the margin at the top and at the bottom of each column (2 w). A
    margin is the share of the line before the first pixel brighter than `threshold` times the
    brightest pixel of the image; 1 where the line has no such pixel.

    Parameters
    ----------
    images : array-like of shape (m, h, w)
        Grey images, bright on dark.
    threshold : float
        From 0 to below 1.
    """
    stack = _as_stack(images)
    if not 0 <= threshold < 1:
        raise SettingError(f"The threshold is {threshold}; a number from 0 to below 1 is expected.")
    drawn = stack > threshold * stack.max(axis=(1, 2), keepdims=True)
    from_left, from_top = drawn, drawn.transpose(0, 2, 1)
    margins = [
        _share_before_first(lines)
        for lines in (from_left, from_left[..., ::-1], from_top, from_top[..., ::-1])
    ]
    return np.concatenate([stack.mean(axis=2), stack.mean(axis=1), *margins], axis=1)


def local_binary_patterns(images: ArrayLike) -> NDArray[np.float64]:
    """Histogram of rotation-invariant local binary patterns, m × 10.

    Each inner pixel is compared with its 8 neighbours in circular order; a neighbour that is at
    least as bright gives a one. Patterns with at most two changes between zero and one on the way
    around (spots, ends, edges, corners) are told apart by their number of ones, 0 … 8; all others
    share the last bin. The entries are shares of the inner pixels.

    Parameters
    ----------
    images : array-like of shape (m, h, w)
        Grey images of at least 3 × 3 pixels.
    """
    stack = _as_stack(images)
    m, h, w = stack.shape
    if min(h, w) < 3:
        raise DataError(f"The images have {h} × {w} pixels; local patterns need at least 3 × 3.")
    circle = [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0)]
    centre = stack[:, 1:-1, 1:-1]
    bits = np.stack([stack[:, y : y + h - 2, x : x + w - 2] >= centre for y, x in circle])
    changes = (bits != np.roll(bits, 1, axis=0)).sum(axis=0)  # (m, h - 2, w - 2)
    pattern = np.where(changes <= 2, bits.sum(axis=0), 9).reshape(m, -1)
    return np.stack([(pattern == p).mean(axis=1) for p in range(10)], axis=1)


def _as_stack(images: ArrayLike) -> NDArray[np.float64]:
    stack = np.asarray(images, dtype=np.float64)
    if stack.ndim != 3 or 0 in stack.shape:
        raise DataError(
            f"The images have shape {stack.shape}; a stack of grey images "
            "(images × rows × columns) is expected."
        )
    return stack


def _share_before_first(lines: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Share of each line (m × lines × length) that lies before its first true entry."""
    length = lines.shape[2]
    share: NDArray[np.float64] = np.where(lines.any(axis=2), lines.argmax(axis=2), length) / length
    return share
