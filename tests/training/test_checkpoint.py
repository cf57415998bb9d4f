"""Checkpoints: whole ones are read, damaged ones are passed over, and two runs do not meet."""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import torch

from dwcl.errors import FileError, ModelError
from dwcl.training.checkpoint import KEPT, CheckpointStore, Keeper, Snapshot

NoRoom: TypeAlias = Callable[[int], AbstractContextManager[None]]

IDENTITY = {"method": "toy", "seed": 3}


def snapshot(value: float) -> Snapshot:
    tensors = {"networks.a": torch.full((3, 2), value), "sums.loss": torch.tensor(value)}
    return Snapshot(tensors, {"position": value, "history": [{"loss": value, "text": "Ĥ"}]})


def found_position(store: CheckpointStore) -> Any:
    found = store.latest()
    return None if found is None else found.plain["position"]


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    store = CheckpointStore(tmp_path / "run", IDENTITY)
    with store.locked():
        pass
    return store


def test_a_snapshot_comes_back_as_it_was(store: CheckpointStore) -> None:
    assert store.latest() is None
    store.save(snapshot(0.1))
    found = store.latest()
    assert found is not None
    assert found.plain == snapshot(0.1).plain
    assert found.tensors.keys() == snapshot(0.1).tensors.keys()
    for name, tensor in snapshot(0.1).tensors.items():
        assert torch.equal(found.tensors[name], tensor)


def test_the_last_two_are_kept(store: CheckpointStore) -> None:
    for value in range(5):
        store.save(snapshot(value))
    names = sorted(path.name for path in store.folder.glob("checkpoint-*"))
    assert len(names) == 2 * KEPT
    assert names[0] == "checkpoint-000004.json"
    found = store.latest()
    assert found is not None
    assert found.plain["position"] == 4


@pytest.mark.parametrize("ending", ["json", "safetensors"])
@pytest.mark.parametrize("harm", ["cut", "flip", "empty", "gone"])
def test_the_one_before_takes_the_place_of_a_damaged_one(
    store: CheckpointStore, ending: str, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    store.save(snapshot(1))
    store.save(snapshot(2))
    path = store.folder / f"checkpoint-000002.{ending}"
    content = path.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes({"cut": content[:middle], "flip": flipped, "empty": b""}[harm])
    with caplog.at_level(logging.WARNING, "dwcl"):
        found = store.latest()
    assert found is not None
    assert found.plain["position"] == 1
    if (ending, harm) != ("json", "gone"):  # without its description, it was never finished
        assert "Checkpoint 2" in caplog.text
        assert "the one before it is used" in caplog.text


@pytest.mark.parametrize("ending", ["json", "safetensors"])
def test_a_cut_anywhere_is_noticed(
    store: CheckpointStore, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    store.save(snapshot(1))
    store.save(snapshot(2))
    path = store.folder / f"checkpoint-000002.{ending}"
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        assert found_position(store) == 1, length
    assert caplog.text.count("Checkpoint 2 in") == len(content)
    path.write_bytes(content)
    assert found_position(store) == 2


@pytest.mark.parametrize("ending", ["json", "safetensors"])
def test_a_flipped_bit_in_any_byte_is_noticed(
    store: CheckpointStore, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    store.save(snapshot(1))
    store.save(snapshot(2))
    path = store.folder / f"checkpoint-000002.{ending}"
    content = path.read_bytes()
    for position in range(len(content)):
        flipped = bytearray(content)
        flipped[position] ^= 1 << position % 8
        path.write_bytes(flipped)
        caplog.clear()
        found = store.latest()
        assert found is not None
        if "Checkpoint 2 in" in caplog.text:
            assert found.plain == snapshot(1).plain, position
        else:  # white space in a description and the like
            assert ending == "json"
            assert found.plain == snapshot(2).plain, position


def test_where_none_is_whole_nothing_is_begun_in_silence(store: CheckpointStore) -> None:
    store.save(snapshot(1))
    store.save(snapshot(2))
    (store.folder / "checkpoint-000001.json").write_text("{")
    (store.folder / "checkpoint-000002.safetensors").unlink()
    match = (
        r"No checkpoint in .*run is whole \(number 2: .*No such file.*; number 1: its description "
        r"is garbled: .*\), so .* remove the checkpoints, or give --force to 'dwcl fit'\."
    )
    with pytest.raises(ModelError, match=match):
        store.latest()
    assert len(list(store.folder.glob("checkpoint-*"))) == 3  # for somebody to look at


def test_a_damaged_one_is_none_of_the_two_that_are_kept(store: CheckpointStore) -> None:
    store.save(snapshot(1))
    store.save(snapshot(2))
    (store.folder / "checkpoint-000002.json").write_text("{")
    assert found_position(store) == 1
    store.save(snapshot(3))
    (store.folder / "checkpoint-000003.json").write_text("{")
    assert found_position(store) == 1


def test_numbers_may_grow(store: CheckpointStore) -> None:
    store.save(snapshot(1))
    for path in store.folder.glob("checkpoint-*"):
        path.rename(path.with_name(path.name.replace("000001", "999999")))
    store.save(snapshot(2))
    store.save(snapshot(3))
    assert found_position(store) == 3
    assert sorted(path.name for path in store.folder.glob("*.json")) == [
        "checkpoint-1000000.json",
        "checkpoint-1000001.json",
    ]


def test_a_new_number_follows_a_damaged_one(store: CheckpointStore) -> None:
    store.save(snapshot(1))
    store.save(snapshot(2))
    (store.folder / "checkpoint-000002.json").write_text("{")
    store.save(snapshot(3))
    found = store.latest()
    assert found is not None
    assert found.plain["position"] == 3


def test_another_run_s_checkpoints_are_refused(store: CheckpointStore) -> None:
    store.save(snapshot(1))
    other = CheckpointStore(store.folder, {"method": "toy", "seed": 4, "epochs": 9})
    with pytest.raises(ModelError, match="belong to another run: epochs, seed differ"):
        other.latest()


def test_a_future_format_is_refused(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("dwcl.training.checkpoint.FORMAT_VERSION", 2)
        store.save(snapshot(1))
    with pytest.raises(ModelError, match="have format 2; this version of dwcl reads format 1"):
        store.latest()


def test_clearing_leaves_nothing_but_the_lock(store: CheckpointStore) -> None:
    store.save(snapshot(1))
    (store.folder / "checkpoint-000009.safetensors").write_bytes(b"never finished")
    store.clear()
    assert [path.name for path in store.folder.iterdir()] == ["lock"]


def test_a_second_run_in_one_folder_is_refused(store: CheckpointStore) -> None:
    second = CheckpointStore(store.folder, IDENTITY)
    refused = pytest.raises(FileError, match=r"Another run .* is writing to")
    with store.locked(), refused, second.locked():
        pass


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from dwcl.training.checkpoint import CheckpointStore\n"
        "with CheckpointStore(Path(sys.argv[1]), {}).locked():\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert ended.returncode == -9
    assert (tmp_path / "lock").read_text().isdigit()
    with CheckpointStore(tmp_path, {}).locked():
        pass


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = CheckpointStore(tmp_path / "file" / "run", IDENTITY)
    with pytest.raises(FileError, match="Checkpoints cannot be written"), store.locked():
        pass


@pytest.mark.parametrize("room", [0, 100, 15_000])
def test_a_full_disk_is_said_and_the_good_one_kept(
    store: CheckpointStore, no_room: NoRoom, room: int, caplog: pytest.LogCaptureFixture
) -> None:
    """No file gets longer than `room`: none, the description alone, or the tensors alone fit."""
    keeper = Keeper(store, every=0)
    keeper.save(snapshot(1))
    before = sorted(store.folder.iterdir())
    large = snapshot(2)
    if room == 100:
        large.tensors["networks.a"] = torch.ones(200, 200)
    else:
        large.plain["history"] = [{"text": "long " * 5_000}]
    with no_room(room), caplog.at_level(logging.WARNING, "dwcl"):
        keeper.save(large)
    assert "what was saved before is kept: Cannot write" in caplog.text
    assert "File too large. Choose a folder" in caplog.text
    assert sorted(store.folder.iterdir()) == before  # nothing takes the room that is short
    assert found_position(store) == 1
    keeper.save(large)
    assert found_position(store) == 2


def test_a_folder_that_became_read_only_is_said(
    store: CheckpointStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    keeper = Keeper(store, every=0)
    keeper.save(snapshot(1))
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "dwcl"):
        patch.setattr("tempfile.mkstemp", refuse)
        patch.setattr("os.unlink", refuse)
        keeper.save(snapshot(2))
    assert "Read-only file system" in caplog.text
    assert found_position(store) == 1


@pytest.mark.parametrize("name", ["networks.a", "sums.loss", "optimiser.0.exp_avg_sq"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_state_that_is_not_finite_replaces_no_good_one(
    store: CheckpointStore, name: str, value: float
) -> None:
    keeper = Keeper(store, every=0)
    keeper.save(snapshot(1))
    bad = snapshot(2)
    bad.tensors[name] = torch.tensor([0.0, value])
    keeper.save(bad)
    assert found_position(store) == 1
    good = snapshot(3)
    good.tensors["results.assessment.quality"] = torch.tensor([value])
    keeper.save(good)
    assert found_position(store) == 3


def test_what_a_killed_process_left_half_written_is_removed(store: CheckpointStore) -> None:
    store.save(snapshot(1))
    for name in (".checkpoint-000002.safetensors.abc", ".checkpoint-000002.json.abc"):
        (store.folder / name).write_bytes(b"half")
    (store.folder / "checkpoint-000002.safetensors").write_bytes(b"without a description")
    with store.locked():
        assert sorted(path.name for path in store.folder.iterdir()) == [
            "checkpoint-000001.json",
            "checkpoint-000001.safetensors",
            "lock",
        ]


def test_a_checkpoint_is_due_after_its_time(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    keeper = Keeper(store, every=60)
    assert not keeper.due
    now[0] += 61
    assert keeper.due
    keeper.save(snapshot(1))
    assert not keeper.due


def test_the_description_is_json_with_a_format(store: CheckpointStore) -> None:
    store.save(snapshot(1))
    body = json.loads((store.folder / "checkpoint-000001.json").read_text("utf-8"))
    assert body["format"] == 1
    assert body["identity"] == IDENTITY
