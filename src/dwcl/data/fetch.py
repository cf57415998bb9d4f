"""Data sets by name: fetched from a mirror, imported from a local file, built, and loaded."""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from dwcl.data.catalogue import PREFIX, Entry, find, shape_in_words
from dwcl.data.download import ProgressBar, difference, download
from dwcl.data.fashion import build_fashion, built_with
from dwcl.data.home import data_home, make_home
from dwcl.data.multiview import MultiView
from dwcl.errors import DataError, FileError, SettingError
from dwcl.files import atomic

logger = logging.getLogger(__name__)


def status(entry: str | Entry, home: str | Path | None = None) -> str:
    """Tell in words whether a data set can be loaded at once.

    Returns
    -------
    str
        ``here``, ``embedded``, ``not fetched``, ``import only`` (not here, and to be had from its
        authors only), ``to be built``, or ``to be extracted`` (the archive is here, not yet the
        file inside). Sizes are checked, hashes only when the file is used.
    """
    entry = find(entry)
    folder = data_home(home)
    if entry.kind == "embedded":
        return "embedded"
    path = _stored(entry, folder)
    if path is not None and (entry.kind != "download" or path.stat().st_size == entry.bytes):
        return "here"
    if entry.kind == "archive" and (folder / str(entry.filename)).is_file():
        return "to be extracted"
    return {"import": "import only", "build": "to be built"}.get(entry.kind, "not fetched")


def fetch(
    name: str | Entry,
    *,
    progress: bool | ProgressBar = False,
    home: str | Path | None = None,
) -> Path:
    """Make sure that the file of a data set is in the storage folder, and return its path.

    A file that is there already is checked and used again; a damaged one is replaced.

    Parameters
    ----------
    name : str or Entry
        Name or alias in the catalogue.
    progress : bool or ProgressBar
        True for a progress bar on the terminal; or an object as pooch takes it.
    home : path, optional
        Storage folder; see :func:`dwcl.data.home.data_home`.

    Returns
    -------
    Path
        The file; for an archive that nobody has extracted yet, the archive.

    Raises
    ------
    FileError
        If no mirror gives the file, or if only its authors do.
    SettingError
        If there is no such data set.
    """
    entry = find(name)
    path = _fetched(entry, data_home(home), progress)
    if _is_archive(entry, path):
        logger.warning("%s", _how_to_extract(entry, path))
    return path


def import_file(name: str | Entry, path: str | Path, home: str | Path | None = None) -> Path:
    """Copy a local file into the storage folder as the file of a data set, once it is checked.

    Where the catalogue knows the hash, the file must be the same to the byte. For the data sets
    that only their authors share, samples, widths of the views and classes must be those of
    the paper; views in another order are accepted and said. Of an archive, either the archive
    itself or the file that was extracted from it is taken.

    Returns
    -------
    Path
        The copy.

    Raises
    ------
    FileError
        If the file cannot be read or the copy not be written.
    DataError
        If it is another file, or if nothing can be imported under this name.
    """
    entry = find(name)
    path = Path(path).expanduser()
    if entry.kind in ("embedded", "build"):
        how = "is part of dwcl" if entry.kind == "embedded" else "is made by dwcl"
        raise DataError(
            f"Nothing can be imported as '{entry.name}': it {how}. "
            f"Use your file under its own name: {path}"
        )
    if not path.is_file():
        what = "is a folder; a file is expected" if path.is_dir() else "does not exist"
        raise FileError(f"Cannot import '{entry.name}': {path} {what}.")
    folder = data_home(home)
    target = folder / str(entry.filename)
    if entry.kind == "download":
        return _copy(path, target, hashed=entry)
    if entry.kind == "archive" and path.suffix.lower() == target.suffix:
        copy = _copy(path, target, hashed=entry)
        logger.warning("%s", _how_to_extract(entry, copy))
        return copy
    return _import_by_shape(entry, path, folder)


def load(
    name: str | Entry,
    *,
    home: str | Path | None = None,
    fetch_if_missing: bool = True,
    progress: bool | ProgressBar = False,
    **reading: Any,
) -> MultiView:
    """Load a data set of the catalogue.

    Parameters
    ----------
    name : str or Entry
        Name or alias.
    home : path, optional
        Storage folder; see :func:`dwcl.data.home.data_home`.
    fetch_if_missing : bool
        Whether to download, or build, what is not there yet.
    progress : bool or ProgressBar
        As in :func:`fetch`.
    **reading
        Choices for a file that reads in two ways, such as `views`, `labels` and `transpose`; see
        :func:`dwcl.data.readers.read`. None stands for no choice.

    Returns
    -------
    MultiView
        With the source ``catalogue:NAME``.
    """
    from dwcl.data.readers import read

    entry = find(name)
    chosen = sorted(key for key, value in reading.items() if value is not None)
    if entry.kind == "embedded":
        return _embedded(entry, chosen)
    path = _to_read(entry, home, fetch_if_missing, progress)
    data = _without_extra_column(entry, read(path, **reading))
    remarks = built_with(path) if entry.kind == "build" else ()
    # Chosen views need not be all that the catalogue speaks of.
    if not chosen and (remark := _remark(entry, data)) is not None:
        remarks = (*remarks, remark)
    layout = (*data.provenance.layout, *remarks)
    return data.with_provenance(replace(data.provenance, source=entry.source, layout=layout))


def resolve(
    data: str | Path,
    *,
    home: str | Path | None = None,
    fetch_if_missing: bool = True,
    progress: bool | ProgressBar = False,
    **reading: Any,
) -> MultiView:
    """Load what a user names: ``catalogue:NAME`` or a path.

    Parameters
    ----------
    data : str or path
        The name or the path.
    home, fetch_if_missing, progress
        For a name; see :func:`load`.
    **reading
        For both; see :func:`dwcl.data.readers.read`.
    """
    from dwcl.data.readers import read

    if str(data).startswith(PREFIX):
        return load(
            str(data), home=home, fetch_if_missing=fetch_if_missing, progress=progress, **reading
        )
    path = Path(data).expanduser()
    if not path.exists():
        try:
            entry = find(str(data))
        except SettingError:
            pass
        else:
            raise FileError(
                f"There is no file {path}. For the data set of this name write: {entry.source}"
            )
    return read(path, **reading)


def _embedded(entry: Entry, chosen: list[str]) -> MultiView:
    from dwcl.data.digits import load_digits

    if chosen:
        raise SettingError(
            f"'{entry.name}' is part of dwcl and reads in one way only; "
            f"leave out: {', '.join(chosen)}."
        )
    data = load_digits()
    return data.with_provenance(replace(data.provenance, source=entry.source))


# -- what lies in the storage folder -----------------------------------------------------------


def _stored(entry: Entry, folder: Path, beside: Path | None = None) -> Path | None:
    """Find the file that is to be read, or one `beside` it, unchecked."""
    if entry.kind in ("download", "build"):
        path = folder / str(entry.filename)
        return path if path.is_file() else None
    # The ending of an imported file is the user's.
    found = (path for path in sorted(folder.glob(f"{entry.name}.*")) if path.is_file())
    return next((path for path in found if path.name != entry.filename and path != beside), None)


def _is_archive(entry: Entry, path: Path) -> bool:
    return entry.kind == "archive" and path.name == entry.filename


def _fetched(entry: Entry, folder: Path, progress: bool | ProgressBar) -> Path:
    stored = _stored(entry, folder)
    if stored is not None and entry.kind != "download":
        return stored
    if entry.kind == "embedded":
        raise DataError(f"'{entry.name}' is part of dwcl: there is no file to fetch. Load it.")
    if entry.kind == "import":
        raise FileError(_how_to_import(entry))
    if entry.kind == "build":
        return build_fashion(home=folder)
    target = folder / str(entry.filename)
    if target.is_file():
        trouble = difference(entry, target)
        if trouble is None:
            return target
        logger.warning("%s is damaged (%s); it is fetched again.", target, trouble)
    return download(entry, target, progress)


def _to_read(
    entry: Entry,
    home: str | Path | None,
    fetch_if_missing: bool,
    progress: bool | ProgressBar,
) -> Path:
    if not fetch_if_missing:
        return _already_here(entry, data_home(home))
    path = _fetched(entry, data_home(home), progress)
    if _is_archive(entry, path):
        raise FileError(_how_to_extract(entry, path))
    return path


def _already_here(entry: Entry, folder: Path) -> Path:
    path = _stored(entry, folder)
    if path is None:
        verb = {"build": "build", "import": "import"}.get(entry.kind, "fetch")
        file = " FILE" if verb == "import" else ""
        raise FileError(
            f"'{entry.name}' is not in {folder} ({status(entry, folder)}). "
            f"Run: dwcl data {verb} {entry.name}{file}"
        )
    if entry.kind == "download" and (trouble := difference(entry, path)) is not None:
        raise FileError(f"{path} is damaged ({trouble}). Run: dwcl data fetch {entry.name}")
    return path


def _copy(path: Path, target: Path, hashed: Entry | None = None) -> Path:
    """Copy a file into the storage folder; with `hashed`, only if it is the file of that entry."""
    # Opened on its own, so that trouble with the original is not reported as one of the copy.
    try:
        source = path.open("rb")
    except OSError as error:
        raise FileError(f"Cannot read {path}: {error.strerror or error}.") from error
    with source:
        make_home(target.parent)
        with atomic(target) as partial:
            with partial.open("wb") as copy:
                shutil.copyfileobj(source, copy)
            # The copy is checked, not the original, which may change meanwhile.
            trouble = None if hashed is None else difference(hashed, partial)
            if hashed is not None and trouble is not None:
                raise DataError(
                    f"{path} is not the file of '{hashed.name}' but {trouble}. "
                    f"Get the right file, or use yours under its own name: {path}"
                )
    return target


# -- checks by shape ---------------------------------------------------------------------------


def _import_by_shape(entry: Entry, path: Path, folder: Path) -> Path:
    from dwcl.data.readers import read

    if not path.suffix:
        raise DataError(f"{path} has no ending that tells its format; rename it, e.g. to .mat.")
    data = _without_extra_column(entry, read(path))
    if not _fits(entry, data):
        got = shape_in_words(data.n_samples, data.widths, data.n_label_values)
        raise DataError(
            f"{path} is not the data set '{entry.name}': it has {got}; expected {entry.shape}. "
            f"Get the right file, or use yours under its own name: {path}"
        )
    if (remark := _remark(entry, data)) is not None:
        logger.warning("%s: %s", entry.name, remark)
    ending = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    target = folder / f"{entry.name}{ending.lower()}"
    _copy(path, target)
    while (earlier := _stored(entry, folder, beside=target)) is not None:
        earlier.unlink()
    return target


def _fits(entry: Entry, data: MultiView) -> bool:
    """Compare what is known of the shape; the order of the views does not count."""
    return (
        entry.n in (None, data.n_samples)
        and (entry.widths is None or sorted(entry.widths) == sorted(data.widths))
        and (data.labels is None or entry.classes in (None, data.n_label_values))
    )


def _remark(entry: Entry, data: MultiView) -> str | None:
    """Say what differs from the catalogue in a file that is used all the same."""
    got = shape_in_words(data.n_samples, data.widths, data.n_label_values)
    if not _fits(entry, data):
        return f"the catalogue says {entry.shape}; this file has {got}"
    if entry.widths is not None and entry.widths != data.widths:
        listed = ", ".join(map(str, data.widths))
        expected = ", ".join(map(str, entry.widths))
        return f"views in another order than in the catalogue: {listed} instead of {expected}"
    return None


def _without_extra_column(entry: Entry, data: MultiView) -> MultiView:
    """Cut off the last column of every view where the catalogue knows that it is no feature."""
    if not entry.extra_column or entry.widths is None:
        return data
    # View by view, so that a choice of views is cut as well.
    if any(width in entry.widths or width - 1 not in entry.widths for width in data.widths):
        return data
    line = "the last column of every view is cut off: it is no feature"
    return replace(
        data,
        views={name: view[:, :-1] for name, view in data.views.items()},
        columns={name: names[:-1] for name, names in data.columns.items()},
        provenance=replace(data.provenance, layout=(*data.provenance.layout, line)),
    )


# -- words -------------------------------------------------------------------------------------


def _how_to_import(entry: Entry) -> str:
    page = f" (see {entry.homepage})" if entry.homepage else ""
    return (
        f"'{entry.name}' has no public address: its authors share it on a drive{page}. "
        f"Get the file ({entry.shape}) and run: dwcl data import {entry.name} FILE"
    )


def _how_to_extract(entry: Entry, archive: Path) -> str:
    return (
        f"'{entry.name}' comes as the archive {archive}, which dwcl does not extract. Extract it, "
        f"for example with 7-Zip or unar, and run: dwcl data import {entry.name} FILE"
    )
