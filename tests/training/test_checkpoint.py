"""Checkpoints: whole ones are read, damaged ones are passed over, and two runs do not meet."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from dwcl.errors import FileError, ModelError
from dwcl.training.checkpoint import KEPT, CheckpointStore, Keeper, Snapshot

IDENTITY = {"method": "toy", "seed": 3}


def snapshot(value: float) -> Snapshot:
    tensors = {"networks.a": torch.full((3, 2), value), "sums.loss": torch.tensor(value)}
    return Snapshot(tensors, {"position": value, "history": [{"loss": value, "text": "Ĥ"}]})


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


def test_every_flipped_byte_is_noticed(store: CheckpointStore) -> None:
    store.save(snapshot(1))
    for path in sorted(store.folder.glob("checkpoint-*")):
        content = path.read_bytes()
        for position in range(0, len(content), 7):
            flipped = bytearray(content)
            flipped[position] ^= 4
            path.write_bytes(flipped)
            found = store.latest()
            # White space and the like may change without harm; a value may not.
            assert found is None or found.plain == snapshot(1).plain
        path.write_bytes(content)
    assert store.latest() is not None


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


def test_a_failing_save_is_said_and_the_good_one_kept(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = Keeper(store, every=0)
    keeper.save(snapshot(1))

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dwcl.training.checkpoint.save_file", full)
    with caplog.at_level(logging.WARNING, "dwcl"):
        keeper.save(snapshot(2))
    assert "No space left on device" in caplog.text
    found = store.latest()
    assert found is not None
    assert found.plain["position"] == 1
    assert len(list(store.folder.iterdir())) == 3


def test_a_state_that_is_not_finite_replaces_no_good_one(store: CheckpointStore) -> None:
    keeper = Keeper(store, every=0)
    keeper.save(snapshot(1))
    keeper.save(snapshot(float("nan")))
    found = store.latest()
    assert found is not None
    assert found.plain["position"] == 1


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
