from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import math
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from dwcl.errors import FileError
from dwcl.files import atomic, locked, sha256_of, write_json, write_tensors, write_text


@pytest.fixture
def umask() -> Iterator[int]:
    mask = os.umask(0o027)
    yield 0o027
    os.umask(mask)


def test_the_target_appears_whole(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    with atomic(target) as temporary:
        assert temporary.parent == tmp_path  # a rename must not cross file systems
        temporary.write_text("half")
        assert not target.exists()
        with temporary.open("a") as file:
            file.write(" and half")
    assert target.read_text() == "half and half"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_broken_off_leaves_the_old_file(
    tmp_path: Path, failure: type[BaseException]
) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(failure), atomic(target) as temporary:  # noqa: PT012
        temporary.write_text("new, in pa")
        raise failure
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_full_disk_is_a_message(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    match = r"Cannot write .*a\.txt: No space left on device\. Choose a folder"
    with pytest.raises(FileError, match=match), atomic(target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert list(tmp_path.iterdir()) == []


def test_the_file_and_then_its_name_are_put_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, move = os.fsync, Path.replace

    def fsync(handle: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    def replace(self: Path, target: Path) -> Path:
        done.append("rename")
        return move(self, target)

    monkeypatch.setattr("os.fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    write_text(tmp_path / "a.txt", "text")
    assert done == ["file", "rename", "folder"]


@pytest.mark.parametrize(("number", "fails"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_system_that_cannot_sync_folders_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, fails: bool
) -> None:
    sync = os.fsync

    def fsync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        sync(handle)

    monkeypatch.setattr("os.fsync", fsync)
    if fails:
        with pytest.raises(FileError, match="Input/output error"):
            write_text(tmp_path / "a.txt", "text")
    else:
        write_text(tmp_path / "a.txt", "text")
    assert (tmp_path / "a.txt").read_text() == "text"


def test_tensors_that_find_no_room_are_a_message(
    tmp_path: Path, no_room: Callable[[int], AbstractContextManager[None]]
) -> None:
    target = tmp_path / "a.safetensors"
    known = write_tensors(target, {"a": torch.zeros(3)})
    assert known == sha256_of(target)
    match = r"Cannot write .*a\.safetensors: File too large\. Choose"
    with no_room(1000), pytest.raises(FileError, match=match):
        write_tensors(target, {"a": torch.zeros(3000)})
    assert known == sha256_of(target)
    assert list(tmp_path.iterdir()) == [target]


def test_trouble_that_is_not_the_disk_s_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise SafetensorError("the header is too large")

    monkeypatch.setattr("safetensors.torch.save_file", refuse)
    with pytest.raises(SafetensorError, match="too large"):
        write_tensors(tmp_path / "a.safetensors", {"a": torch.zeros(3)})
    assert list(tmp_path.iterdir()) == []


def test_an_error_about_another_file_keeps_its_words(tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught, atomic(tmp_path / "a.txt"):
        raise FileError("Cannot read the source.")
    assert str(caught.value) == "Cannot read the source."
    assert list(tmp_path.iterdir()) == []


def test_a_path_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"Cannot write .*b\.txt: Not a directory"):
        write_text(tmp_path / "file" / "b.txt", "text")


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"Cannot write .*: No such file or directory\. Choose"):
        write_text(tmp_path / "none" / "b.txt", "text")


def test_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "b.txt").mkdir()
    with pytest.raises(FileError, match=r"Cannot write .*b\.txt: Is a directory"):
        write_text(tmp_path / "b.txt", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["b.txt"]


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind this user")
def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(FileError, match="Permission denied"):
        write_text(tmp_path / "b.txt", "text")


def test_permissions_follow_the_mask(tmp_path: Path, umask: int) -> None:
    target = tmp_path / "a.txt"
    write_text(target, "text")
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~umask == 0o640
    assert os.umask(umask) == umask  # as it was


def test_text_is_utf8(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "Ĥ × λ\n")
    assert (tmp_path / "a.txt").read_bytes() == "Ĥ × λ\n".encode()


def test_json_is_readable_and_ends_its_line(tmp_path: Path) -> None:
    value = {"name": "Ĥ", "sizes": [1, 2], "none": None}
    write_json(tmp_path / "a.json", value)
    text = (tmp_path / "a.json").read_text("utf-8")
    assert text == ('{\n  "name": "Ĥ",\n  "sizes": [\n    1,\n    2\n  ],\n  "none": null\n}\n')
    assert json.loads(text) == value


@pytest.mark.parametrize("size", [0, 1, 300_000])
def test_the_hash_is_that_of_the_bytes(tmp_path: Path, size: int) -> None:
    content = bytes(i % 251 for i in range(size))
    (tmp_path / "a.bin").write_bytes(content)
    assert sha256_of(tmp_path / "a.bin") == hashlib.sha256(content).hexdigest()


def test_json_has_no_word_for_what_is_no_number(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"x": math.nan, 1: [np.float32(0.5), -math.inf], "t": (2,)})
    assert json.loads((tmp_path / "a.json").read_text()) == {
        "x": None, "1": [0.5, None], "t": [2],
    }  # fmt: skip


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lock"
    with locked(path):
        assert path.read_text() == str(os.getpid())
        with pytest.raises(FileError, match=rf"Another run \(process {os.getpid()}\)"):
            locked(path).__enter__()
    with locked(path):  # free again, though the file is still there
        pass


def test_a_lock_needs_no_room(
    tmp_path: Path, no_room: Callable[[int], AbstractContextManager[None]]
) -> None:
    path = tmp_path / "lock"
    with no_room(0), locked(path), pytest.raises(FileError, match=r"Another run \(process unkn"):
        locked(path).__enter__()


def test_a_lock_whose_file_its_holder_removed_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the opening and the locking the last holder ends and takes the file away."""
    path = tmp_path / "lock"
    flock, calls = fcntl.flock, []

    def late(file: Any, operation: int) -> None:
        calls.append(operation)
        if len(calls) == 1:
            path.unlink()
        flock(file, operation)

    monkeypatch.setattr("fcntl.flock", late)
    with locked(path):
        assert len(calls) == 2
        with pytest.raises(FileError, match="Another run"):
            locked(path).__enter__()


def test_a_lock_that_is_always_removed_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcntl.flock", lambda *_: (tmp_path / "lock").unlink())
    with pytest.raises(FileError, match="removed again and again"):
        locked(tmp_path / "lock").__enter__()


@pytest.mark.parametrize("failure", [FileNotFoundError, NotADirectoryError, PermissionError])
def test_a_lock_needs_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[OSError]
) -> None:
    def mkdir(*_: Any, **__: Any) -> None:
        raise failure(0, "no such luck")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(FileError, match=r"Cannot write .*new: no such luck"):
        locked(tmp_path / "new" / "lock").__enter__()


def test_a_system_without_locks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(FileError, match="fit in Python without checkpoints"):
        locked(tmp_path / "lock").__enter__()
