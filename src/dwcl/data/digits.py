"""The embedded data set: handwritten digits, described in several ways."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dwcl.data import descriptors
from dwcl.data.multiview import MultiView, Provenance

_Descriptor = Callable[[NDArray[Any]], NDArray[np.float64]]

DESCRIPTORS: dict[str, tuple[_Descriptor, str]] = {
    "pixels": (descriptors.pixels, "grey values from 0 to 1"),
    "gradients": (
        partial(descriptors.oriented_gradients, cells=(3, 3), n_bins=8),
        "gradient orientations, 3 × 3 cells of 8 bins",
    ),
    "fourier": (
        partial(descriptors.fourier_magnitudes, n_frequencies=3, log=True),
        "log magnitudes of low frequencies, blind to position",
    ),
    "zernike": (
        partial(descriptors.zernike_moments, order=8),
        "magnitudes of Zernike moments, blind to rotation",
    ),
    "profiles": (partial(descriptors.profiles, threshold=0.5), "projections and margins"),
    "patterns": (descriptors.local_binary_patterns, "local binary patterns, a weak view"),
}
"""The views by name: the descriptor and a line about it."""

_DECIMALS = 5


def load_digits() -> MultiView:
    """Load 1,797 handwritten digits of 8 × 8 pixels as six views; nothing is downloaded.

    The images are those that scikit-learn installs. Their views differ in what they see: the
    magnitudes of Fourier coefficients do not know where a digit stands, the Zernike moments do not
    know how it is turned (a 6 is a 9), and the local patterns know neither its place nor its shape.

    Returns
    -------
    MultiView
        Views ``pixels``, ``gradients``, ``fourier``, ``zernike``, ``profiles`` and ``patterns`` in
        single precision, with the digits as labels.
    """
    from sklearn.datasets import load_digits as load_images  # quick start: only where it is used

    source = load_images()
    images = source.images / 16.0  # (1797, 8, 8)
    # Processors differ in the last bits; rounding keeps that out of the fingerprint.
    views = {
        name: np.round(describe(images), _DECIMALS).astype(np.float32)
        for name, (describe, _) in DESCRIPTORS.items()
    }
    layout = tuple(
        f"{name}: {view.shape[1]} features, {DESCRIPTORS[name][1]}" for name, view in views.items()
    )
    return MultiView(
        views=views,
        labels=np.asarray(source.target, dtype=np.int64),
        provenance=Provenance(source="embedded:digits", layout=layout),
    )
