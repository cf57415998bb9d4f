"""The errors that a user can cause, and the one way in which they are worded.

Every message says what came, what is expected and what to do. The command line prints it as it
is and exits with status 2; in Python the class tells which room the trouble came from. All derive
from :class:`ValueError` (or :class:`OSError` where the file system refuses), so that code written
for scikit-learn's conventions catches them too.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class DwclError(Exception):
    """Base of every error that dwcl raises on purpose."""


class DataError(DwclError, ValueError):
    """The data cannot be used as they are: shapes, values, or a layout that reads in two ways."""


class FileError(DwclError, OSError):
    """A file or folder cannot be read or written."""


class SettingError(DwclError, ValueError):
    """An option, a recipe or a parameter is unknown or out of its range."""


class ModelError(DwclError, ValueError):
    """A model or run folder is damaged, incomplete or of a format that this version cannot read."""


class TrainingError(DwclError, RuntimeError):
    """Training cannot go on: the loss is no longer a finite number, or has exploded."""


class MissingExtraError(DwclError, ImportError):
    """An optional library is needed and not installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        self._parts = (purpose, extra)
        super().__init__(
            f"{purpose} needs an optional library that is not installed. "
            f"Install it with: pip install 'dwcl[{extra}]'"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy by the two parts: an error of a worker process must reach its parent."""
        return (MissingExtraError, self._parts)


def nearest(name: str, known: Iterable[str]) -> str:
    """Word a hint at the known name that is most like `name`, or list what is known."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"Did you mean '{close[0]}'?"
    return "Known: " + ", ".join(known) + "."
