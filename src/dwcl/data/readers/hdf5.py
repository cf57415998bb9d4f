"""HDF5 files, and among them MATLAB files of version 7.3.

MATLAB writes arrays with their axes in reverse order, cells as arrays of references, and sparse
matrices as groups; attributes say which is which.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.sparse as sp

from dwcl.data import ondisk
from dwcl.data.readers.base import Reading, Request, reading, register
from dwcl.data.readers.layout import Unusable, Variable, infer

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_MATLAB_HEADER = b"MATLAB 7.3 MAT-file"
_USER_BLOCKS = (0, 512, 1024, 2048)  # the signature may stand behind a block of the user's


def _is_hdf5(head: bytes) -> bool:
    return head.startswith(_MATLAB_HEADER) or any(
        head[start:].startswith(_SIGNATURE) for start in _USER_BLOCKS
    )


@register("HDF5 and MATLAB v7.3", suffixes=(".h5", ".hdf5"), recognises=_is_hdf5)
def read_hdf5(path: Path, request: Request) -> Reading:
    """Read the arrays of an HDF5 file and infer what they mean."""
    with path.open("rb") as raw:
        is_matlab = raw.read(len(_MATLAB_HEADER)) == _MATLAB_HEADER
    kind = "MATLAB v7.3 (HDF5)" if is_matlab else "HDF5"
    with reading(path, f"a file of type {kind}"), h5py.File(path, "r") as file:
        is_matlab = is_matlab or any("MATLAB_class" in item.attrs for item in _items(file))
        variables = _matlab_variables(file) if is_matlab else _plain_variables(file, path)
    return infer(variables, request).of_type("MATLAB v7.3 (HDF5)" if is_matlab else kind)


def _items(group: h5py.Group) -> list[Any]:
    """Return what a group holds, without links that lead nowhere."""
    return [item for name in group if (item := group.get(name)) is not None]


# -- MATLAB ----------------------------------------------------------------------------------------


def _matlab_variables(file: h5py.File) -> dict[str, Variable]:
    # Names with number signs belong to MATLAB itself: the targets of references, and objects.
    return {name: _matlab_variable(file, file[name]) for name in file if not name.startswith("#")}


def _matlab_variable(file: h5py.File, item: Any) -> Variable:
    if "MATLAB_sparse" in item.attrs:
        return _matlab_sparse(item)
    if isinstance(item, h5py.Group):
        return Unusable("a struct or an object of MATLAB")
    kind = _text(item.attrs.get("MATLAB_class", b""))
    if item.attrs.get("MATLAB_empty", 0):
        return [] if kind == "cell" else np.empty((0, 0))
    if h5py.check_ref_dtype(item.dtype) is not None:
        return _matlab_cell(file, item)
    if kind in ("struct", "function_handle"):
        return Unusable("a struct or an object of MATLAB")
    values = np.asarray(item[()]).T
    if kind == "char":
        return _characters(values)
    if values.dtype.names == ("real", "imag"):
        return values["real"] + 1j * values["imag"]
    return values


def _matlab_cell(file: h5py.File, item: h5py.Dataset) -> Variable:
    # The order of a file with reversed axes is the order in which MATLAB counts, column by column.
    references = np.asarray(item[()]).ravel()
    parts = [_matlab_variable(file, file[reference]) for reference in references if reference]
    return parts[0] if len(parts) == 1 and isinstance(parts[0], list) else parts


def _matlab_sparse(group: h5py.Group) -> sp.csc_array[Any]:
    column_starts = np.asarray(group["jc"][()]).astype(np.int64)
    n_rows = int(group.attrs["MATLAB_sparse"])
    # A matrix of zeros is written without values.
    has_values = "data" in group and "ir" in group
    values: Any = np.asarray(group["data"][()]) if has_values else np.empty(0)
    rows = np.asarray(group["ir"][()]).astype(np.int64) if has_values else np.empty(0, np.int64)
    if values.dtype.names == ("real", "imag"):
        values = values["real"] + 1j * values["imag"]
    matrix = sp.csc_array((values, rows, column_starts), shape=(n_rows, len(column_starts) - 1))
    matrix.check_format(full_check=True)
    return matrix


def _characters(codes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    rows = np.atleast_2d(codes).astype(np.uint32)
    return np.array(["".join(map(chr, row)) for row in rows.tolist()], dtype=np.str_)


# -- any other -------------------------------------------------------------------------------------


def _plain_variables(file: h5py.File, path: Path) -> dict[str, Variable]:
    variables: dict[str, Variable] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            variables[name] = _plain_variable(item, path)

    file.visititems(visit)
    return variables


def _plain_variable(item: h5py.Dataset, path: Path) -> Variable:
    if item.shape is None:
        return Unusable("empty")
    if h5py.check_string_dtype(item.dtype) is not None:
        return np.asarray(item.asstr()[()], dtype=np.str_)
    if item.dtype.names is not None or item.dtype.kind not in "biufc":
        return Unusable(f"of type {item.dtype}")
    if item.ndim == 2 and item.nbytes >= ondisk.WORTHWHILE:
        return ondisk.Hdf5Table(path, item.name)  # its rows are read when needed
    return np.asarray(item[()])


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
