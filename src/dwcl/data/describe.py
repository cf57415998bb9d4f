"""What a container holds, as plain values for a table or JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dwcl.data.blocks import row_blocks
from dwcl.data.multiview import Matrix, MultiView


def describe(data: MultiView) -> dict[str, Any]:
    """Describe the data in values that JSON can hold.

    Returns
    -------
    dict
        ``source``, ``sha256``, ``n``, ``views`` (one dict each: ``name``, ``width``, ``type``,
        ``sparse``, ``density``), ``label_values`` (how many different ones, None without
        labels), ``layout`` (what the reader understood, line by line) and ``scaling``.
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
            }
            for name, view in data.views.items()
        ],
        "label_values": data.n_label_values,
        "layout": list(data.provenance.layout),
        "scaling": dict(data.provenance.scaling),
    }


def density(view: Matrix) -> float:
    """Share of the n × d entries that are not zero."""
    filled = sum(int(np.count_nonzero(block)) for _, block in row_blocks(view))
    return filled / (int(view.shape[0]) * int(view.shape[1]))
