"""Files: written whole or not at all, known by their hash, and locked where runs may meet."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from dwcl.errors import DwclError, FileError

if TYPE_CHECKING:
    from torch import Tensor

_LOCK_ATTEMPTS = 100
_NO_SYNC_OF_FOLDERS = {errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EPERM}


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
        temporary.chmod(0o666 & ~umask())
        temporary.replace(target)
        sync_folder(target.parent)
    except DwclError:
        raise  # a FileError about another file is an OSError too, and has its own words
    except OSError as failure:
        raise unwritable(target, failure) from failure
    finally:
        temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk: a file that was renamed has its name only then.

    Some systems know no such thing; there a name is as safe as it can be.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as failure:
        if failure.errno not in _NO_SYNC_OF_FOLDERS:
            raise


def write_tensors(target: Path, tensors: Mapping[str, Tensor]) -> str:
    """Write a safetensors file whole or not at all; returns its SHA-256."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    with atomic(target) as temporary:
        try:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, temporary)
        except SafetensorError as failure:
            # The library has no exception for a full disk; the system's number is in its message.
            number = re.search(r"os error (\d+)", str(failure))
            if number is None:
                raise
            raise OSError(int(number[1]), os.strerror(int(number[1]))) from failure
        return sha256_of(temporary)


def write_text(target: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with atomic(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(target: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with atomic(target) as temporary:
        temporary.write_bytes(content)


def write_json(target: Path, value: Any) -> None:
    """Write a JSON file whole or not at all; what is not a finite number becomes null."""
    text = json.dumps(finite(value), indent=2, ensure_ascii=False, allow_nan=False)
    write_text(target, text + "\n")


def finite(value: Any) -> Any:
    """Return a value as JSON can hold it: JSON has no word for NaN and infinity but null."""
    if hasattr(value, "item"):  # a scalar of NumPy
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file; the system frees it when the process ends, however it ends.

    Missing folders are made. A second holder is refused with the number of the first one's
    process. Only the holder may remove the file.
    """
    with _open_lock(path) as file:
        # The number is for people; a disk with no room for it does not make the lock less of one.
        # Written past Python's buffer, which would be written again when the file is closed.
        with contextlib.suppress(OSError):
            os.ftruncate(file.fileno(), 0)
            os.write(file.fileno(), str(os.getpid()).encode())
        yield


def _open_lock(path: Path) -> TextIO:
    """Open and lock a file; not one that its last holder removed in between."""
    try:
        import fcntl
    except ImportError:
        raise FileError(
            "Runs on disk are locked with flock, which this system does not have. Use Linux or "
            "macOS, or fit in Python without checkpoints."
        ) from None
    for _ in range(_LOCK_ATTEMPTS):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            raise unwritable(path.parent, failure) from failure
        with contextlib.ExitStack() as closing:
            try:
                # Opened for appending: the holder's number stays readable for whoever comes next.
                file = closing.enter_context(path.open("a+", encoding="utf-8"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    closing.pop_all()
                    return file
            except FileNotFoundError:
                continue  # its last holder has removed the folder in this moment
            except BlockingIOError:
                file.seek(0)
                raise FileError(
                    f"Another run (process {file.read().strip() or 'unknown'}) is writing to "
                    f"{path.parent}. Wait for its end, or choose another folder."
                ) from None
            except OSError as failure:
                raise unwritable(path, failure) from failure
    raise FileError(f"Cannot lock {path}: it is removed again and again. Choose another folder.")


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


def umask() -> int:
    """Read the process's mask for new files, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
