"""Files as people share them, read into a :class:`~dwcl.data.multiview.MultiView`.

One module per family of formats registers a reader; :func:`read` finds it by the content of the
file. What the parts of a file mean is inferred in :mod:`.layout` (files of arrays) and
:mod:`.tabular` (files of columns), the same for all formats. A new format is one module with a
function under :func:`.base.register`, and its name in the import below.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from dwcl.data.multiview import MultiView, Provenance
from dwcl.data.readers import arrays, csvfile, folder, hdf5, matlab, parquet  # noqa: F401
from dwcl.data.readers.base import Reading, Request, check_exists, reader_for, reading
from dwcl.data.readers.labels import SUFFIXES as LABEL_SUFFIXES
from dwcl.data.readers.labels import GivenLabels, attach, labels_of_array, read_labels
from dwcl.data.readers.observed import read_observed
from dwcl.files import sha256_of

__all__ = ["read"]


def read(
    path: str | Path,
    *,
    views: Sequence[str] | None = None,
    labels: str | Path | ArrayLike | None = None,
    transpose: bool | Sequence[str] | None = None,
    id_column: str | None = None,
    observed: Any = None,
) -> MultiView:
    """Read a file or folder of several views.

    MATLAB files of all versions, ``.npz``, ``.npy``, HDF5, Parquet and delimited text are
    understood, and folders with one ``.npy`` or text file per view. What was understood is in
    ``provenance.layout`` of the result, one line each.

    Parameters
    ----------
    path : str or Path
        The file or folder.
    views : sequence of str, optional
        The views to keep, in this order: names of variables, columns' prefixes, files of a folder,
        or views as they are named without this.
    labels : str, Path or array-like of n, optional
        The variable or column of the labels; or a file (``.csv``, ``.tsv``, ``.txt``, ``.npy``) of
        one label, or id and label, per line; or the labels themselves, in the order of the
        samples. Labels are for scoring only.
    transpose : bool or sequence of str, optional
        Whether the samples lie in columns: in all views, in none, or in those named. Found out
        when absent.
    id_column : str, optional
        The column of the sample ids in tables; found out when absent.
    observed : str, Path, array-like of n × V or mapping, optional
        Which samples have which views: a text file with a column of 0 and 1 for each view, named
        in its first line (and a column of ids, if the samples have some); or the truth values
        themselves, as :class:`~dwcl.data.multiview.MultiView` takes them.

    Returns
    -------
    MultiView
        The views, with labels and sample ids where the data have them.

    Raises
    ------
    FileError
        If the file is not there, damaged, or of no known format.
    DataError
        If its parts contradict each other or can be read in two ways.
    """
    path = Path(path).expanduser()
    check_exists(path)
    label_name, given = _given_labels(labels)
    request = Request(
        views=_names(views),
        labels=label_name,
        given_labels=given,
        transpose=transpose if isinstance(transpose, bool) else _names(transpose),
        id_column=id_column,
    )
    found = reader_for(path).load(path, request)
    if given is not None:
        found = attach(found, given)
    if isinstance(observed, str | Path):
        table = read_observed(Path(observed).expanduser())
        n = next(iter(found.views.values())).shape[0]
        observed, line = table.arranged(
            list(found.views), found.sample_ids, n, some=views is not None
        )
        found = replace(found, lines=(*found.lines, line))
    return MultiView(
        views=found.views,
        sample_ids=found.sample_ids,
        labels=found.labels,
        columns=found.columns,
        provenance=Provenance(str(path), _sha256(path, found), found.lines, found.scaling),
        observed=observed,
    )


def _given_labels(labels: Any) -> tuple[str | None, GivenLabels | None]:
    """Tell the name of a variable or column from labels in a file or an array."""
    if labels is None:
        return None, None
    if isinstance(labels, Path):
        return None, read_labels(labels.expanduser())
    if not isinstance(labels, str):
        return None, labels_of_array(labels)
    file = Path(labels).expanduser()
    if labels.lower().endswith(LABEL_SUFFIXES) and file.is_file():
        return None, read_labels(file)
    return labels, None


def _names(names: Sequence[str] | None) -> Sequence[str] | None:
    return [names] if isinstance(names, str) else names


def _sha256(path: Path, found: Reading) -> str:
    """Hash a file, or the names and hashes of those files of a folder that were read."""
    with reading(path, "a file"):
        if not found.files:
            return sha256_of(path)
        digest = hashlib.sha256()
        for file in sorted(found.files):
            digest.update(f"{file.name}\n{sha256_of(file)}\n".encode())
        return digest.hexdigest()
