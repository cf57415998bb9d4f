"""Writers of MATLAB 7.3 files as MATLAB lays them out, for the tests of readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

CLASSES = {"f8": b"double", "f4": b"single", "u1": b"uint8", "u2": b"uint16", "i4": b"int32"}


def _write(file: h5py.File, group: Any, name: str, value: Any) -> None:
    """Write one variable: axes reversed, cells as references, sparse matrices as groups."""
    if isinstance(value, list):
        references = np.empty((len(value), 1), dtype=h5py.ref_dtype)
        store = file.require_group("#refs#")
        for i, part in enumerate(value):
            key = f"{name.replace('/', '')}{len(store)}"
            _write(file, store, key, part)
            references[i, 0] = store[key].ref
        item = group.create_dataset(name, data=references, dtype=h5py.ref_dtype)
        item.attrs["MATLAB_class"] = np.bytes_(b"cell")
    elif sp.issparse(value):
        matrix = sp.csc_array(value)
        item = group.create_group(name)
        item.attrs["MATLAB_sparse"] = np.uint64(matrix.shape[0])
        item.attrs["MATLAB_class"] = np.bytes_(b"double")
        item["jc"] = matrix.indptr.astype(np.uint64)
        if matrix.nnz:
            item["ir"] = matrix.indices.astype(np.uint64)
            item["data"] = matrix.data
    elif isinstance(value, dict):
        item = group.create_group(name)
        item.attrs["MATLAB_class"] = np.bytes_(b"struct")
        for key, part in value.items():
            _write(file, item, key, part)
    elif isinstance(value, str):
        item = group.create_dataset(name, data=np.array([[ord(c)] for c in value], np.uint16))
        item.attrs["MATLAB_class"] = np.bytes_(b"char")
    else:
        array = np.atleast_2d(value)
        if array.size == 0:
            item = group.create_dataset(name, data=np.array(array.shape, np.uint64))
            item.attrs["MATLAB_empty"] = np.uint8(1)
        elif array.dtype.kind == "c":
            pairs = np.empty(array.T.shape, dtype=[("real", "f8"), ("imag", "f8")])
            pairs["real"], pairs["imag"] = array.T.real, array.T.imag
            item = group.create_dataset(name, data=pairs)
        else:
            item = group.create_dataset(name, data=array.T)
        item.attrs["MATLAB_class"] = np.bytes_(CLASSES.get(array.dtype.str[1:], b"double"))


@pytest.fixture
def write_mat73(tmp_path: Path) -> Callable[..., Path]:
    """Write variables to a MATLAB 7.3 file and return its path."""

    def write(variables: Mapping[str, Any], name: str = "data.mat") -> Path:
        path = tmp_path / name
        with h5py.File(path, "w", userblock_size=512) as file:
            for key, value in variables.items():
                _write(file, file, key, value)
        with path.open("r+b") as raw:
            raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")
        return path

    return write


def make_cell(*parts: Any) -> np.ndarray[Any, Any]:
    """Return a cell of one row, as scipy writes it to MATLAB files."""
    row = np.empty((1, len(parts)), dtype=object)
    for i, part in enumerate(parts):
        row[0, i] = part
    return row


@pytest.fixture
def cell() -> Callable[..., np.ndarray[Any, Any]]:
    """Give :func:`make_cell` to the tests."""
    return make_cell
