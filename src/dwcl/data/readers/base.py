"""What every reader shares: the request, the result, the registry and the wording of damage."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import NDArray

from dwcl.data.multiview import Matrix
from dwcl.errors import DwclError, FileError

if TYPE_CHECKING:
    from dwcl.data.readers.labels import GivenLabels

HEAD_BYTES = 4096
"""How much of a file a reader sees when it is asked whether the file is of its kind."""


@dataclass(frozen=True)
class Request:
    """What the user has said about a file; everything else is inferred.

    Attributes
    ----------
    views : sequence of str, optional
        The views to keep, by the name of a variable, column prefix, file stem or view.
    labels : str, optional
        The variable or column that holds the labels.
    given_labels : GivenLabels, optional
        Labels from a file of their own; they take the place of labels in the data.
    transpose : bool or sequence of str, optional
        Whether the samples lie in columns: in all views, in none, or in the named ones.
    id_column : str, optional
        The column that holds the sample ids.
    """

    views: Sequence[str] | None = None
    labels: str | None = None
    given_labels: GivenLabels | None = None
    transpose: bool | Sequence[str] | None = None
    id_column: str | None = None


@dataclass(frozen=True)
class Reading:
    """What a reader made of a file.

    Attributes
    ----------
    views, labels, sample_ids, columns, scaling
        As in :class:`dwcl.data.multiview.MultiView` and its provenance.
    lines : tuple of str
        What was understood, one line each.
    files : tuple of Path
        The files of a folder that were read; empty for a single file.
    """

    views: Mapping[str, Matrix]
    lines: tuple[str, ...]
    labels: NDArray[Any] | None = None
    sample_ids: NDArray[Any] | None = None
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scaling: Mapping[str, str] = field(default_factory=dict)
    files: tuple[Path, ...] = ()

    def of_type(self, words: str) -> Reading:
        """Return the same reading with a line on the type of the file."""
        return replace(self, lines=(*self.lines, f"type: {words}"))


Loader: TypeAlias = Callable[[Path, Request], Reading]


@dataclass(frozen=True)
class Reader:
    """A file format: how it is recognised and how it is read."""

    name: str
    suffixes: tuple[str, ...]
    recognises: Callable[[bytes], bool]
    of_folders: bool
    load: Loader


_READERS: dict[str, Reader] = {}


def _nothing(_head: bytes) -> bool:
    return False


def register(
    name: str,
    *,
    suffixes: tuple[str, ...] = (),
    recognises: Callable[[bytes], bool] = _nothing,
    of_folders: bool = False,
) -> Callable[[Loader], Loader]:
    """Register the decorated function as the reader of a format.

    Parameters
    ----------
    name : str
        The format as a user would call it.
    suffixes : tuple of str
        File name endings, used only when no reader recognises the content.
    recognises : callable
        Tells from the first bytes whether a file is of the format. Content decides, not the
        suffix: MATLAB files of both generations end in ``.mat``.
    of_folders : bool
        Whether this is the reader of folders.
    """

    def add(load: Loader) -> Loader:
        _READERS[name] = Reader(name, suffixes, recognises, of_folders, load)
        return load

    return add


def known_suffixes() -> tuple[str, ...]:
    """Return the endings of all files that can be read."""
    return tuple(dict.fromkeys(suffix for r in _READERS.values() for suffix in r.suffixes))


def reader_for(path: Path) -> Reader:
    """Find the reader of a file or folder, by its content first and its name second."""
    if path.is_dir():
        return next(reader for reader in _READERS.values() if reader.of_folders)
    head = _head(path)
    for reader in _READERS.values():
        if reader.recognises(head):
            return reader
    if head.startswith(b"version https://git-lfs"):
        raise FileError(
            f"{path} is a pointer of Git LFS, not the data themselves. "
            "Fetch them with `git lfs pull`, or download the raw file."
        )
    if head.lstrip()[:15].lower().startswith((b"<!doctype", b"<html")):
        raise FileError(
            f"{path} is a web page, not data: the download was answered with a page. "
            "Download the raw file instead."
        )
    for reader in _READERS.values():
        if path.name.lower().endswith(reader.suffixes):
            return reader
    raise FileError(
        f"{path} is of no known format. Files that can be read end in "
        f"{', '.join(known_suffixes())}; a folder of .npy or of .csv files can be read too."
    )


def check_exists(path: Path) -> None:
    """Refuse a path where nothing lies, with the nearest name in its folder as a hint."""
    if path.exists():
        return
    folder = path.parent
    if not folder.is_dir():
        raise FileError(f"There is no {path}: the folder {folder} does not exist.")
    names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.6)
    hint = f" Did you mean '{close[0]}'?" if close else " Check the path."
    raise FileError(f"There is no file or folder '{path.name}' in {folder}.{hint}")


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a library raises or warns on a damaged file into one clear error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except DwclError:
        raise
    except MemoryError as error:
        raise FileError(
            f"{path} asks for more memory than there is. Either the data are too large for this "
            "machine, or the file is damaged and claims sizes that it does not have."
        ) from error
    except PermissionError as error:
        raise FileError(f"{path} may not be read: {error.strerror}. Check its rights.") from error
    except Exception as error:  # parsers of damaged files raise nearly anything
        raise damaged(path, kind, error) from error


def damaged(path: Path, kind: str, error: Exception) -> FileError:
    """Word the error about a file that its library cannot read."""
    first_line = (str(error).splitlines() or [type(error).__name__])[0]
    return FileError(
        f"{path} cannot be read as {kind}: the file is damaged or its download stopped early "
        f"({first_line}). Get it again and compare its size or checksum."
    )


def _head(path: Path) -> bytes:
    with reading(path, "a file"), path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        raise FileError(f"{path} is empty (0 bytes). Get it again.")
    return head
