"""The folder in which fetched, imported and built data sets lie."""

from __future__ import annotations

import os
from pathlib import Path

import pooch

from dwcl.errors import FileError

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


def make_home(folder: Path) -> None:
    """Make the storage folder where it is not there yet.

    Raises
    ------
    FileError
        If that cannot be.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"Cannot make the folder of data sets {folder}: {error.strerror or error}. "
            f"Choose another with the environment variable {VARIABLE}."
        ) from error
