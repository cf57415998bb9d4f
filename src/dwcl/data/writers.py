"""Writing a :class:`~dwcl.data.multiview.MultiView` to a file that reads back as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dwcl.data.multiview import MultiView
from dwcl.errors import DataError
from dwcl.files import atomic

FORMAT_VERSION = 1
"""Version of the archive; a reader refuses those of later versions."""

NPZ_KEY = "dwcl"
"""Name of the array that describes the others, as JSON."""


def write_npz(multiview: MultiView, path: str | Path) -> None:
    """Write views, ids, labels and column names to one ``.npz`` file, whole or not at all.

    Dense views are the arrays ``view1``, ``view2`` … of the archive; a sparse one is three arrays,
    such as ``view1.data``. Their names, and all else that is not an array, are in the array
    ``dwcl`` as JSON. Nothing is pickled.

    Parameters
    ----------
    multiview : MultiView
        What to write.
    path : str or Path
        The file; it is replaced if it is there.

    Raises
    ------
    DataError
        If ids or labels are neither numbers nor text.
    FileError
        If the file cannot be written.
    """
    arrays: dict[str, NDArray[Any]] = {"sample_ids": _plain(multiview.sample_ids, "sample ids")}
    if multiview.labels is not None:
        arrays["labels"] = _plain(multiview.labels, "labels")
    about: list[dict[str, Any]] = []
    for i, (name, view) in enumerate(multiview.views.items(), 1):
        entry: dict[str, Any] = {"name": name}
        if name in multiview.columns:
            entry["columns"] = multiview.columns[name]
        if sp.issparse(view):
            entry["sparse_shape"] = view.shape
            for part in ("data", "indices", "indptr"):
                arrays[f"view{i}.{part}"] = getattr(view, part)
        else:
            arrays[f"view{i}"] = np.asarray(view)
        about.append(entry)
    description = {
        "format": FORMAT_VERSION,
        "views": about,
        "scaling": dict(multiview.provenance.scaling),
    }
    arrays[NPZ_KEY] = np.array(json.dumps(description))
    with atomic(Path(path)) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type] # mistaken for allow_pickle


def _plain(values: NDArray[Any], what: str) -> NDArray[Any]:
    """Return values as an array of numbers or text; text often comes as an array of objects."""
    if values.dtype.kind != "O":
        return values
    if not all(isinstance(value, str) for value in values):
        raise DataError(
            f"The {what} are Python objects of mixed types; numbers or text are expected in a file."
        )
    return values.astype(np.str_)
