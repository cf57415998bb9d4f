"""Tables that stay on the disk: rows are read when they are asked for.

A memory map would do the same with less code, but every page that is touched then counts as memory
of the process until the system takes it back: a pass over a large file looks like a leak. Reading
blocks of rows leaves nothing behind.
"""

from __future__ import annotations

import mmap
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dwcl.errors import DataError, FileError

WORTHWHILE = 2**26
"""Size in bytes from which on a file's table is left on the disk."""
_RUN = 256
"""Rows that lie within so many others are read in one piece."""
_HEADS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""How the heads of ``.npy`` files are read, by the version of the format."""


class DiskTable(ABC):
    """A table of n × d numbers on the disk that can be cut into blocks of rows like an array.

    Attributes
    ----------
    path : Path
        The file.
    shape : tuple of two int
        n and d.
    dtype : numpy.dtype
        Type of the numbers in the file.
    """

    ndim = 2

    def __init__(self, path: Path, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self.path = path
        self.shape = shape
        self.dtype = dtype

    @abstractmethod
    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Read consecutive rows into a new array."""

    @property
    def nbytes(self) -> int:
        """Size of all rows in the type of the file."""
        return self.shape[0] * self.shape[1] * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        """Read a slice of rows, or chosen rows by their positions or by a mask."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step > 0:
                return self.read(start, max(start, stop))[::step]
        return self._gather(np.arange(len(self))[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Load the whole table: what NumPy calls when a function needs an array."""
        del copy  # it is a copy in any case
        values = self.read(0, len(self))
        return values if dtype is None else values.astype(dtype, copy=False)

    @property
    def T(self) -> NDArray[Any]:  # noqa: N802 - its name in NumPy
        """Load the table and turn it: rows of the other kind do not lie together in the file."""
        return np.asarray(self).T

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r}, {self.shape[0]} × {self.shape[1]})"

    def _gather(self, index: NDArray[np.int64]) -> NDArray[Any]:
        """Read chosen rows, neighbours in one piece."""
        index = np.atleast_1d(index)
        found = np.empty((len(index), self.shape[1]), dtype=self.dtype)
        order = np.argsort(index, kind="stable")
        position = 0
        while position < len(order):
            first = int(index[order[position]])
            after = int(np.searchsorted(index, first + _RUN, sorter=order))
            members = order[position:after]
            found[members] = self.read(first, int(index[members[-1]]) + 1)[index[members] - first]
            position = after
        return found


class FileTable(DiskTable):
    """A table that lies row by row in a file: that of a ``.npy`` file, or of a memory map."""

    def __init__(
        self, path: Path, offset: int, shape: tuple[int, int], dtype: np.dtype[Any]
    ) -> None:
        super().__init__(path, shape, dtype)
        self._offset = offset

    @classmethod
    def of_npy(cls, path: Path) -> FileTable | None:
        """Find the table of a ``.npy`` file; None where its rows do not lie one after the other.

        A file that is shorter than its head says is a :class:`ValueError`, as in NumPy.
        """
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            read = _HEADS.get(version)
            if read is None:
                return None
            shape, in_columns, dtype = read(file)
            if in_columns or len(shape) != 2 or dtype.hasobject or dtype.names is not None:
                return None
            table = cls(path, file.tell(), shape, dtype)
        missing = table._offset + table.nbytes - path.stat().st_size
        if missing > 0:
            raise ValueError(f"{missing:,} bytes are missing at its end")
        return table

    @classmethod
    def of_memmap(cls, table: np.memmap[Any, Any]) -> FileTable | None:
        """Find the file behind a memory map.

        None where its rows do not lie one after the other, or where it may have been changed in
        memory alone.
        """
        if table.ndim != 2 or not table.flags.c_contiguous or table.filename is None:
            return None
        if table.mode == "c":
            return None
        # The offset that a map states is that of the whole, also where this is a part of it.
        whole = np.frombuffer(table._mmap, dtype=np.uint8)  # type: ignore[attr-defined]
        inside = table.ctypes.data - whole.ctypes.data
        mapped_from = table.offset - table.offset % mmap.ALLOCATIONGRANULARITY
        shape = (table.shape[0], table.shape[1])
        return cls(Path(table.filename), mapped_from + inside, shape, table.dtype)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Read consecutive rows into a new array."""
        width = self.shape[1]
        values = np.empty((max(0, stop - start), width), dtype=self.dtype)
        wanted = memoryview(values.reshape(-1).view(np.uint8).data)
        position = self._offset + start * width * self.dtype.itemsize
        try:
            with self.path.open("rb", buffering=0) as file:
                file.seek(position, os.SEEK_SET)
                done = 0
                while done < len(wanted):
                    got = file.readinto(wanted[done:])
                    if not got:
                        raise DataError(
                            f"{self.path} ends before row {stop} of {len(self)}: the file is "
                            "damaged or its download stopped early. Get it again."
                        )
                    done += got
        except OSError as failure:
            raise _gone(self.path, failure) from failure
        return values


class Hdf5Table(DiskTable):
    """A data set of an HDF5 file, which is opened for each reading and so not kept from others."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        with _opened(path) as file:
            found = file[name]
            super().__init__(path, found.shape, found.dtype)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Read consecutive rows into a new array."""
        with _opened(self.path) as file:
            return np.asarray(file[self.name][start:stop])


class OpenHdf5Table(DiskTable):
    """A data set of an HDF5 file that its user has opened and keeps open."""

    def __init__(self, found: Any) -> None:
        super().__init__(Path(found.file.filename), found.shape, found.dtype)
        self._found = found

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Read consecutive rows into a new array."""
        if not self._found:
            raise DataError(
                f"The HDF5 file {self.path} has been closed while its rows are still needed. "
                "Keep it open until the fit has ended."
            )
        return np.asarray(self._found[start:stop])

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy to another process by the file, which is opened there again."""
        return (Hdf5Table, (self.path, self._found.name))


def as_disk_table(view: Any) -> DiskTable | None:
    """Return the table on the disk that an object stands for; None if it stands for none."""
    if isinstance(view, DiskTable):
        return view
    if isinstance(view, np.memmap):
        return FileTable.of_memmap(view)
    kind = type(view)
    if kind.__module__.startswith("h5py.") and kind.__name__ == "Dataset" and view.ndim == 2:
        return OpenHdf5Table(view)
    return None


def _opened(path: Path) -> Any:
    import h5py

    try:
        return h5py.File(path, "r")
    except OSError as failure:
        raise _gone(path, failure) from failure


def _gone(path: Path, failure: OSError) -> FileError:
    return FileError(
        f"{path} cannot be read any more: {failure.strerror or failure}. Its rows are read while "
        "a model works with them; put the file back."
    )
