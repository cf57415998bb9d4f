from __future__ import annotations

import json

import numpy as np
import scipy.sparse as sp

from dwcl.data.describe import density, describe
from dwcl.data.multiview import MultiView, Provenance


def test_a_container_is_described_in_json_values() -> None:
    sparse = sp.csr_array(np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0]]))
    sparse.data[1] = 0.0  # a stored zero
    data = MultiView(
        views={"text": sparse, "count": np.array([[1, 0], [3, 4]], dtype=np.uint8)},
        labels=np.array([7, 7]),
        provenance=Provenance(
            source="here.mat", sha256="ab", layout=("one line",), scaling={"text": "minmax"}
        ),
    )
    got = describe(data)
    assert got == {
        "source": "here.mat",
        "sha256": "ab",
        "n": 2,
        "views": [
            {
                "name": "text",
                "width": 4,
                "type": "float64",
                "sparse": True,
                "density": 1 / 8,
                "missing": 0,
            },
            {
                "name": "count",
                "width": 2,
                "type": "uint8",
                "sparse": False,
                "density": 3 / 4,
                "missing": 0,
            },
        ],
        "label_values": 1,
        "layout": ["one line"],
        "scaling": {"text": "minmax"},
    }
    assert json.loads(json.dumps(got)) == got


def test_data_from_memory_without_labels() -> None:
    got = describe(MultiView(views={"a": np.ones((3, 1), dtype=np.float32)}))
    assert (got["source"], got["sha256"], got["label_values"], got["layout"]) == (None,) * 3 + ([],)


def test_density_of_an_empty_and_a_full_table() -> None:
    assert density(np.zeros((2, 2))) == 0.0
    assert density(np.array([[np.nan, 1], [2, 3]])) == 1.0


def test_missing_rows_are_counted_apart() -> None:
    x = np.array([[0.0, 1.0], [np.nan, np.nan], [0.0, 0.0], [np.nan, np.nan]])
    (view,) = describe(MultiView({"a": x}))["views"]
    assert (view["density"], view["missing"]) == (1 / 4, 2)
    assert density(np.full((2, 2), np.nan)) == 0.0
