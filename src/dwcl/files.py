"""Files: written whole or not at all, and known by their hash."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dwcl.errors import DwclError, FileError


@contextlib.contextmanager
def atomic(target: Path) -> Iterator[Path]:
    """Give a path to write to, and move it to `target` once it is complete and on the disk.

    Whatever goes wrong before that leaves `target` as it was and no other file behind.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as failure:
        raise unwritable(target, failure) from failure
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    except DwclError:
        raise  # a FileError about another file is an OSError too, and has its own words
    except OSError as failure:
        raise unwritable(target, failure) from failure
    finally:
        temporary.unlink(missing_ok=True)


def write_text(target: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with atomic(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(target: Path, value: Any) -> None:
    """Write a JSON file whole or not at all."""
    write_text(target, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=True) + "\n")


def make_folder(folder: Path) -> None:
    """Make a folder with its parents, or say clearly why that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise FileError(
            f"Cannot make the folder {folder}: {failure.strerror}. Choose another place with --out."
        ) from failure


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, read by blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unwritable(target: Path, failure: OSError) -> FileError:
    """Word the error for a place that cannot be written."""
    return FileError(
        f"Cannot write {target}: {failure.strerror or failure}. Choose a folder that exists, "
        "that you may write to, and that has room."
    )


def _umask() -> int:
    """Read the process's mask for new files, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
