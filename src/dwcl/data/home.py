"""The folder of fetched, imported and built data sets, and how a file gets there whole."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pooch

from dwcl.errors import DwclError, FileError

VARIABLE = "DWCL_DATA"
"""The environment variable that names the folder."""


def data_home(home: str | Path | None = None) -> Path:
    """Tell the folder in which data sets are kept; it need not exist yet.

    Parameters
    ----------
    home : path, optional
        A folder to use instead. When absent, the environment variable ``DWCL_DATA`` decides, and
        without it the cache folder of the platform.
    """
    chosen = home or os.environ.get(VARIABLE) or pooch.os_cache("dwcl")
    return Path(chosen).expanduser()


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Give a name to write to, and move the file to `target` once it is complete.

    The name is fresh each time, so what an interrupted run left behind is never taken up, and
    two processes that write the same file do not disturb each other. It lies in the folder of
    the target, because only within one file system is a move a single step. After an error it
    is gone.

    Raises
    ------
    FileError
        If the folder cannot be made or the file not be written.
    """
    partial = target.with_name(f".{target.stem}.{uuid.uuid4().hex[:12]}.partial{target.suffix}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        partial.replace(target)
    except DwclError:
        raise
    except OSError as error:
        raise FileError(
            f"Cannot write {target}: {error.strerror or error}. "
            f"Choose another folder with the environment variable {VARIABLE}, or make room."
        ) from error
    finally:
        _remove(partial)


def _remove(partial: Path) -> None:
    # An unreachable folder has been reported already; a second error would hide the first.
    try:
        partial.unlink(missing_ok=True)
    except OSError:
        return
