"""MATLAB files of version 4 to 7.2; those of version 7.3 are HDF5 (:mod:`.hdf5`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from dwcl.data.readers.base import Reading, Request, reading, register
from dwcl.data.readers.layout import Unusable, Variable, infer

_HEADER = b"MATLAB 5.0 MAT-file"


def _is_matlab(head: bytes) -> bool:
    return head.startswith(_HEADER)


@register("MATLAB v4–v7.2", suffixes=(".mat",), recognises=_is_matlab)
def read_matlab(path: Path, request: Request) -> Reading:
    """Read the variables of a MATLAB file and infer what they mean."""
    with path.open("rb") as file:
        version = "v5" if file.read(len(_HEADER)) == _HEADER else "v4"
    with reading(path, "a MATLAB file"):
        content = scipy.io.loadmat(path)
        variables = {
            name: _variable(value)
            for name, value in content.items()
            if not (name.startswith("__") and name.endswith("__"))
        }
    return infer(variables, request).of_type(f"MATLAB {version}")


def _variable(value: Any) -> Variable:
    if sp.issparse(value):
        return value
    if not isinstance(value, np.ndarray) or value.dtype.names is not None:
        return Unusable("a struct or an object of MATLAB")
    if value.dtype.kind == "O":
        return [_variable(item) for item in _unnested(value).ravel(order="F")]
    return value


def _unnested(cell: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Open a cell whose only content is another cell."""
    while cell.size == 1 and isinstance(cell.flat[0], np.ndarray) and cell.flat[0].dtype == object:
        cell = cell.flat[0]
    return cell
