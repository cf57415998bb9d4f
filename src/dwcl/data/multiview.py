"""The container that every other part of dwcl works on: several tables of the same samples."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from dwcl.data.missing import observed_rows, with_gaps
from dwcl.data.ondisk import DiskTable, as_disk_table
from dwcl.errors import DataError, nearest

Matrix: TypeAlias = "NDArray[Any] | sp.csr_array[Any] | DiskTable"
"""One view: n samples in rows, d features in columns; dense, sparse by rows, or on the disk."""


@dataclass(frozen=True)
class Provenance:
    """Where the data came from: enough to find the same bytes again.

    Attributes
    ----------
    source : str or None
        File, folder or catalogue entry; None for arrays from memory.
    sha256 : str or None
        Hash of the file, or of the files of a folder in their order.
    layout : tuple of str
        What the reader understood, one line each.
    scaling : mapping of str to str
        The scaling by view, once one has been applied.
    """

    source: str | None = None
    sha256: str | None = None
    layout: tuple[str, ...] = ()
    scaling: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, init=False)
class MultiView:
    """Several views (tables) of the same samples, in one row order.

    The container is immutable and copies nothing that it need not: a view is the array that was
    given, with the writeable flag of the caller's array left as it is.

    Parameters
    ----------
    views : mapping of str to matrix
        n × d_v each, real numbers, dense or `scipy.sparse` (kept by rows). Memory maps and HDF5
        data sets stay on the disk, where rows are read from as they are needed.
    sample_ids : array-like of n, optional
        Names of the samples; their positions when absent.
    labels : array-like of n, optional
        Known classes. They are kept apart and serve for scoring only: nothing that fits a model
        reads them.
    columns : mapping of str to sequence of str, optional
        Names of the features of those views that have them.
    provenance : Provenance, optional
        Where the data came from.
    observed : array-like of n × V, or mapping of str to array-like of n, optional
        Which samples have which views, as truth values or 0 and 1. A row of a view that is NaN
        throughout stands for a missing one; a table is put into the views in that form, which
        copies those that it concerns.
    """

    views: Mapping[str, Matrix]
    sample_ids: NDArray[Any]
    labels: NDArray[Any] | None
    columns: Mapping[str, tuple[str, ...]]
    provenance: Provenance

    def __init__(
        self,
        views: Mapping[str, Any],
        sample_ids: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        columns: Mapping[str, Sequence[str]] | None = None,
        provenance: Provenance | None = None,
        observed: Any = None,
    ) -> None:
        if not isinstance(views, Mapping):
            raise DataError(
                f"MultiView takes a mapping from names to tables, and got {_kind(views)}. "
                "dwcl.as_multiview takes lists and single tables too."
            )
        if not views:
            raise DataError(
                "No view was given; at least one table of samples × features is needed."
            )
        tables = {str(name): as_matrix(view, str(name)) for name, view in views.items()}
        if len(tables) < len(views):
            raise DataError(f"Two views have the same name among: {', '.join(map(str, views))}.")
        _check_same_length(tables)
        n = next(iter(tables.values())).shape[0]
        ids = np.arange(n) if sample_ids is None else _as_array(sample_ids, "sample ids")
        _check_vector(ids, n, "sample ids")
        if len(set(ids.tolist())) < n:
            twice = next(i for i in _repeated(ids))
            raise DataError(
                f"The sample id {twice!r} occurs more than once; ids must tell samples apart."
            )
        classes = _as_labels(labels)
        if classes is not None:
            _check_vector(classes, n, "labels")
        titles = {str(name): tuple(map(str, names)) for name, names in (columns or {}).items()}
        for name, names in titles.items():
            if name not in tables or len(names) != tables[name].shape[1]:
                raise DataError(
                    f"{len(names)} column names came for view '{name}', which has "
                    f"{tables[name].shape[1] if name in tables else 'no table'}."
                )
        set_ = object.__setattr__  # frozen: set once, here
        set_(self, "views", MappingProxyType(with_gaps(tables, observed)))
        set_(self, "sample_ids", ids)
        set_(self, "labels", classes)
        set_(self, "columns", MappingProxyType(titles))
        set_(self, "provenance", provenance or Provenance())

    # -- what it is ------------------------------------------------------------------------------

    @property
    def n_samples(self) -> int:
        """Number of samples n."""
        return int(self.arrays[0].shape[0])

    @property
    def n_views(self) -> int:
        """Number of views V."""
        return len(self.views)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the views in their order."""
        return tuple(self.views)

    @property
    def arrays(self) -> tuple[Matrix, ...]:
        """The views in their order."""
        return tuple(self.views.values())

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of features of each view."""
        return tuple(int(view.shape[1]) for view in self.arrays)

    @functools.cached_property
    def observed(self) -> NDArray[np.bool_]:
        """Which samples have which views: n × V, found from the views when first asked for."""
        table = np.column_stack([observed_rows(view) for view in self.arrays])
        table.flags.writeable = False
        return table

    @property
    def n_label_values(self) -> int | None:
        """Number of different label values, None without labels."""
        if self.labels is None:
            return None
        if self.labels.dtype.kind == "O":  # text beside gaps, say, which has no order
            return len(set(self.labels.tolist()))
        return len(np.unique(self.labels))

    def __getitem__(self, name: str) -> Matrix:
        if name not in self.views:
            raise DataError(f"There is no view '{name}'. {nearest(str(name), self.views)}")
        return self.views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.views)

    def __repr__(self) -> str:
        views = ", ".join(
            f"{name}: {width}" for name, width in zip(self.names, self.widths, strict=True)
        )
        labels = "" if self.labels is None else f", {self.n_label_values} label values"
        return f"MultiView({self.n_samples} samples; {views}{labels})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy by the parts: a read-only mapping cannot be sent to another process itself."""
        parts = (dict(self.views), self.sample_ids, self.labels, dict(self.columns))
        return (MultiView, (*parts, self.provenance))

    # -- others of its kind ------------------------------------------------------------------------

    def select(self, names: Sequence[str]) -> MultiView:
        """Return the named views only, in the order of the names."""
        views = {name: self[name] for name in names}
        columns = {name: self.columns[name] for name in names if name in self.columns}
        return replace(self, views=views, columns=columns)

    def take(self, rows: ArrayLike) -> MultiView:
        """Return the chosen samples (positions or a mask) of every view."""
        n = self.n_samples
        try:
            index = np.arange(n)[_as_array(rows, "rows")]
        except IndexError as failure:
            raise DataError(
                f"These rows cannot be taken of {n} samples: {failure}. Positions from 0 to "
                f"{n - 1}, or a mask of {n} truth values, are expected."
            ) from failure
        return replace(
            self,
            views={name: view[index] for name, view in self.views.items()},
            sample_ids=self.sample_ids[index],
            labels=None if self.labels is None else self.labels[index],
        )

    def with_labels(self, labels: ArrayLike | None) -> MultiView:
        """Return the same views with other labels."""
        return replace(self, labels=_as_labels(labels))

    def with_provenance(self, provenance: Provenance) -> MultiView:
        """Return the same views with another origin."""
        return replace(self, provenance=provenance)

    def fingerprint(self) -> str:
        """SHA-256 of the names, shapes, types and values of the views, whatever their file."""
        digest = hashlib.sha256()
        for name, view in self.views.items():
            digest.update(f"{name}|{view.dtype.str}|{view.shape}|".encode())
            for part in _parts(view):
                digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()


def as_multiview(data: Any, *, labels: ArrayLike | None = None) -> MultiView:
    """Build a :class:`MultiView` from whatever a user holds.

    Parameters
    ----------
    data : MultiView, mapping, sequence or matrix
        A mapping from names to tables, a sequence of tables (named ``view1``, ``view2``, …), or a
        single table. A table is a 2-D array, a memory map, an HDF5 data set, a scipy sparse
        matrix, a torch tensor or a data frame. Data frames in a mapping are matched by their index
        or id; see :func:`dwcl.data.frames.from_frames` for the choices and the report.
    labels : array-like of n, optional
        Known classes, for scoring only.
    """
    from dwcl.data.frames import from_frames, is_frame

    if isinstance(data, MultiView):
        return data if labels is None else data.with_labels(labels)
    if isinstance(data, str | Path):
        raise DataError(
            f"{str(data)!r} is the name of a file, not data. "
            f"Read it first: dwcl.read({str(data)!r})."
        )
    if data is None:
        raise DataError("There are no data: None came. Give a table, or several of them.")
    tables: Mapping[Any, Any] = {"view1": data}
    if isinstance(data, Mapping) and not is_frame(data) and not sp.issparse(data):
        tables = data
    elif is_sequence_of_tables(data):
        tables = {f"view{i}": table for i, table in enumerate(data, 1)}
    frames = [name for name, table in tables.items() if is_frame(table)]
    if frames and len(frames) < len(tables):
        other = next(name for name in tables if name not in frames)
        raise DataError(
            f"View '{frames[0]}' is a data frame and view '{other}' is not, so it is open how "
            "their rows belong together. Give data frames for all views, or arrays for all "
            "(frame.to_numpy(), rows in the same order)."
        )
    if frames:
        return from_frames(tables, labels=labels)
    return MultiView(views=tables, labels=_as_labels(labels))


def is_sequence_of_tables(data: Any) -> bool:
    """Tell a list of tables from one table that is written as a list of rows."""
    if not isinstance(data, list | tuple) or not data:
        return False
    return all(len(getattr(item, "shape", ())) >= 2 or _is_nested(item) for item in data)


def as_matrix(view: Any, name: str) -> Matrix:
    """Check one table and return it as a real 2-D array or CSR array, uncopied if it is one."""
    if np.ma.is_masked(view):
        raise DataError(
            f"View '{name}' has masked entries, and values behind them that must not be used. "
            "Fill them, for example with the means of their columns, or leave out their rows."
        )
    on_disk = as_disk_table(view)
    if on_disk is not None:
        matrix: Matrix = on_disk
    elif sp.issparse(view):
        matrix = sp.csr_array(view)
    else:
        # A tensor on the CPU shares its memory with the array; one with a gradient is cut off.
        detach = getattr(view, "detach", None)
        if detach is not None:
            view = detach().cpu()
            view = view.float() if str(view.dtype) == "torch.bfloat16" else view
        matrix = _as_array(view, f"values of view '{name}'")
    if matrix.ndim != 2:
        raise DataError(
            f"View '{name}' has shape {matrix.shape}; a table of samples × features (2-D) is "
            "expected. Flatten images to one row per sample; give several views as a list or dict."
        )
    if matrix.dtype.kind == "c":
        raise DataError(
            f"Complex data not supported: view '{name}' has type {matrix.dtype}. "
            "Give real numbers, for example the magnitude and the phase as two views."
        )
    if matrix.dtype.kind not in "buif":
        raise DataError(
            f"View '{name}' has type {matrix.dtype}; numbers are expected. "
            "Encode text or categories as numbers first."
        )
    if 0 in matrix.shape:
        raise DataError(
            f"View '{name}' has {matrix.shape[0]} samples and {matrix.shape[1]} features; "
            "at least one of each is needed."
        )
    return matrix


def _parts(view: Any) -> Iterator[NDArray[Any]]:
    """Arrays that together determine a view's values."""
    if sp.issparse(view):
        ordered = view if view.has_sorted_indices else view.sorted_indices()
        yield from (ordered.indptr.astype(np.int64), ordered.indices.astype(np.int64), ordered.data)
    else:
        for start in range(0, view.shape[0], 4096):
            yield view[start : start + 4096]


def _as_labels(labels: ArrayLike | None) -> NDArray[Any] | None:
    return None if labels is None else _as_array(labels, "labels")


def _as_array(values: Any, what: str) -> NDArray[Any]:
    """Return values as an array; rows of different lengths, say, do not make one."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as failure:
        raise DataError(
            f"The {what} ({_kind(values)}) cannot be used as an array: {str(failure).rstrip('.')}. "
            "Rows of one length are expected; sparse data as a scipy.sparse matrix."
        ) from failure


def _kind(value: Any) -> str:
    """Name the type of a value, with its library."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _is_nested(item: Any) -> bool:
    """Tell whether an item of a list of tables is a table, written as a list of rows."""
    return isinstance(item, list | tuple) and bool(item) and isinstance(item[0], list | tuple)


def _check_same_length(views: Mapping[str, Matrix]) -> None:
    lengths = {name: view.shape[0] for name, view in views.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"'{name}' {n}" for name, n in lengths.items())
        raise DataError(
            f"The views have different numbers of samples: {listed}. Every view must describe the "
            "same samples in the same order; a table with samples in columns must be transposed."
        )


def _check_vector(values: NDArray[Any], n: int, what: str) -> None:
    if values.shape != (n,):
        raise DataError(
            f"The {what} have shape {values.shape}, but the views have {n} samples; "
            f"one value per sample is expected, shape ({n},)."
        )


def _repeated(values: NDArray[Any]) -> Iterator[Any]:
    seen: set[Any] = set()
    for value in values.tolist():
        if value in seen:
            yield value
        seen.add(value)
