"""What a container holds, as plain values for a table or JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dwcl.data.missing import observed_blocks
from dwcl.data.multiview import Matrix, MultiView


def describe(data: MultiView) -> dict[str, Any]:
    """Describe the data in values that JSON can hold.

    Returns
    -------
    dict
        ``source``, ``sha256``, ``n``, ``views`` (one dict each: ``name``, ``width``, ``type``,
        ``sparse``, ``density``, and ``missing``, the number of samples that lack it),
        ``label_values`` (how many different ones, None without labels), ``layout`` (what the
        reader understood, line by line) and ``scaling``.
    """
    return {
        "source": data.provenance.source,
        "sha256": data.provenance.sha256,
        "n": data.n_samples,
        "views": [
            {
                "name": name,
                "width": int(view.shape[1]),
                "type": str(view.dtype),
                "sparse": bool(sp.issparse(view)),
                "density": density(view),
                "missing": int(np.count_nonzero(~there)),
            }
            for (name, view), there in zip(data.views.items(), data.observed.T, strict=True)
        ],
        "label_values": data.n_label_values,
        "layout": list(data.provenance.layout),
        "scaling": dict(data.provenance.scaling),
    }


def density(view: Matrix) -> float:
    """Share of the entries, of those samples that have the view, that are not zero."""
    filled = entries = 0
    for _, block in observed_blocks(view):
        filled += int(np.count_nonzero(block))
        entries += block.size
    return filled / max(entries, 1)
