"""NumPy files: ``.npz`` archives and single ``.npy`` arrays. Objects are never unpickled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dwcl.data import ondisk
from dwcl.data.multiview import Matrix
from dwcl.data.readers.base import Reading, Request, reading, register
from dwcl.data.readers.layout import Unusable, Variable, infer
from dwcl.data.readers.orientation import orientation_line
from dwcl.data.writers import FORMAT_VERSION, NPZ_KEY
from dwcl.errors import DataError, nearest

_PICKLED = "an array of Python objects, which are never unpickled: that could run code of the file"
# Where the header of a member of a zip archive has the length of the name, and the name.
_ZIP_NAME_LENGTH = slice(26, 28)
_ZIP_NAME = 30


def _is_npz(head: bytes) -> bool:
    """Tell a zip archive whose first member is an array from the other formats in zip archives."""
    name = head[_ZIP_NAME : _ZIP_NAME + int.from_bytes(head[_ZIP_NAME_LENGTH], "little")]
    return head.startswith(b"PK\x03\x04") and name.endswith(b".npy")


def _is_npy(head: bytes) -> bool:
    return head.startswith(b"\x93NUMPY")


@register("NumPy archive", suffixes=(".npz",), recognises=_is_npz)
def read_npz(path: Path, request: Request) -> Reading:
    """Read an archive of arrays: one written by dwcl as it was, another by inference."""
    with (
        reading(path, "a NumPy archive"),
        path.open("rb") as file,
        np.load(file, allow_pickle=False) as archive,
    ):
        if NPZ_KEY in archive.files:
            stored = _stored(archive)
        else:
            stored = None
            variables = {name: _member(archive, name) for name in archive.files}
    if stored is not None:
        return _chosen(stored, request).of_type("NumPy archive of dwcl")
    return infer(variables, request).of_type("NumPy archive")


@register("NumPy array", suffixes=(".npy",), recognises=_is_npy)
def read_npy(path: Path, request: Request) -> Reading:
    """Read a single table; its samples lie in rows unless something says otherwise."""
    value = load_array(path)
    if isinstance(value, Unusable):
        raise DataError(f"{path} is {value.what}. Save numbers: an array of samples × features.")
    if value.ndim < 2:
        raise DataError(
            f"{path} has shape {value.shape}; a table of samples × features (2-D) is expected. "
            "Several views go into a folder of .npy files or into one .npz file."
        )
    return infer({"view1": value}, request, rows_in_doubt=True).of_type("NumPy array")


def load_array(path: Path) -> Variable:
    """Load one ``.npy`` file; a large table stays there, and its rows are read when needed."""
    with reading(path, "a NumPy array"):
        try:
            if path.stat().st_size >= ondisk.WORTHWHILE:
                table = ondisk.FileTable.of_npy(path)
                if table is not None:
                    return table
            return np.load(path, allow_pickle=False)
        except ValueError as error:
            return _not_unpickled(error)


def _member(archive: Any, name: str) -> Variable:
    try:
        return archive[name]
    except ValueError as error:
        return _not_unpickled(error)


def _not_unpickled(error: ValueError) -> Unusable:
    if "allow_pickle" not in str(error):
        raise error
    return Unusable(_PICKLED)


# -- archives written by dwcl ----------------------------------------------------------------------


def _stored(archive: Any) -> Reading:
    about = json.loads(str(archive[NPZ_KEY]))
    if about["format"] > FORMAT_VERSION:
        raise DataError(
            f"The archive has format {about['format']}; this version of dwcl reads up to format "
            f"{FORMAT_VERSION}. Install a newer version of dwcl."
        )
    views = {}
    for i, view in enumerate(about["views"], 1):
        views[view["name"]] = _stored_view(archive, f"view{i}", view)
    return Reading(
        views=views,
        labels=archive["labels"] if "labels" in archive.files else None,
        sample_ids=archive["sample_ids"],
        columns={v["name"]: tuple(v["columns"]) for v in about["views"] if "columns" in v},
        scaling=about["scaling"],
        lines=(),
    )


def _stored_view(archive: Any, key: str, about: dict[str, Any]) -> Matrix:
    if "sparse_shape" not in about:
        return archive[key]
    parts = tuple(archive[f"{key}.{part}"] for part in ("data", "indices", "indptr"))
    return sp.csr_array(parts, shape=tuple(about["sparse_shape"]))


def _chosen(stored: Reading, request: Request) -> Reading:
    """Apply what the user says to an archive that needs no inference."""
    if request.transpose or (request.labels is not None and request.labels != "labels"):
        raise DataError(
            "An archive written by dwcl says itself where its samples and labels are; "
            "leave out transpose, and give labels only as a file."
        )
    for name in request.views or ():
        if name not in stored.views:
            raise DataError(f"There is no view '{name}'. {nearest(name, stored.views)}")
    names = list(stored.views) if request.views is None else list(request.views)
    views = {name: stored.views[name] for name in names}
    labels = None if request.given_labels is not None else stored.labels
    widths = " + ".join(str(view.shape[1]) for view in views.values())
    lines = [
        f"views: {', '.join(views)}, {widths} features",
        orientation_line(dict.fromkeys(views, False)),
    ]
    if labels is not None:
        lines.append(f"labels: {len(np.unique(labels))} values")
    return Reading(
        views=views,
        labels=labels,
        sample_ids=stored.sample_ids,
        columns={name: stored.columns[name] for name in names if name in stored.columns},
        scaling={name: stored.scaling[name] for name in names if name in stored.scaling},
        lines=tuple(lines),
    )
