"""Run folders: whole or not there at all, readable by people and programs."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dwcl import DWCL, MultiView, load_model, make_multiview
from dwcl.errors import FileError, ModelError
from dwcl.storage.run import (
    check_free,
    is_written,
    labels_csv,
    read_run,
    seconds_by_phase,
    write_run,
)


@pytest.fixture
def data() -> MultiView:
    made = make_multiview(40, 3, widths=(5, 4), noise=0.1, random_state=0)
    return MultiView(made.views, sample_ids=[f"s{i}" for i in range(40)], labels=made.labels)


@pytest.fixture
def model(data: MultiView, small: dict[str, Any]) -> DWCL:
    return DWCL(3, **small, random_state=0).fit(data)


def test_a_run_folder_holds_everything(tmp_path: Path, data: MultiView, model: DWCL) -> None:
    folder = write_run(tmp_path / "a" / "run", model, data, facts={"recipe": None})
    assert sorted(path.name for path in folder.iterdir()) == [
        "history.jsonl", "labels.csv", "model.json", "model.safetensors", "run.json",
    ]  # fmt: skip
    facts = read_run(folder)
    assert facts["seed"] == 0
    assert facts["data"]["views"] == {"view1": 5, "view2": 4}
    assert facts["data"]["fingerprint"] == data.fingerprint()
    assert facts["history"] == json.loads(json.dumps(model.history_))
    assert facts["seconds"].keys() == {"pretrain", "contrast-1", "contrast-2"}
    assert facts["precision"] == "fp32"
    assert facts["threads"] == 1
    assert {"python", "torch", "numpy", "scikit-learn"} <= facts["versions"].keys()
    assert list(load_model(folder).predict(data)) == list(model.labels_)


def test_labels_csv_has_ids_clusters_and_two_distances(
    tmp_path: Path, data: MultiView, model: DWCL
) -> None:
    folder = write_run(tmp_path / "run", model, data, facts={})
    with (folder / "labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["sample"] for row in rows] == [f"s{i}" for i in range(40)]
    assert [int(row["cluster"]) for row in rows] == list(model.labels_)
    distances = np.sort(model.centre_distances(data), axis=1)
    np.testing.assert_allclose([float(r["distance"]) for r in rows], distances[:, 0], rtol=1e-5)
    np.testing.assert_allclose(
        [float(r["next_distance"]) for r in rows], distances[:, 1], rtol=1e-5
    )


def test_the_same_seed_writes_the_same_labels_and_model(
    tmp_path: Path, data: MultiView, small: dict[str, Any]
) -> None:
    for name, seed in (("one", 1), ("two", 1), ("other", 2)):
        model = DWCL(3, **small, random_state=seed).fit(data)
        write_run(tmp_path / name, model, data, facts={})
    for file in ("labels.csv", "model.safetensors"):
        content = {n: (tmp_path / n / file).read_bytes() for n in ("one", "two", "other")}
        assert content["one"] == content["two"]
        assert content["one"] != content["other"]


def test_nothing_is_overwritten_unless_asked(tmp_path: Path, data: MultiView, model: DWCL) -> None:
    folder = write_run(tmp_path / "run", model, data, facts={"mark": 1})
    with pytest.raises(FileError, match="not empty; nothing is overwritten"):
        write_run(folder, model, data, facts={"mark": 2})
    assert read_run(folder)["mark"] == 1
    write_run(folder, model, data, facts={"mark": 2}, replace=True)
    assert read_run(folder)["mark"] == 2


def test_a_folder_of_something_else_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileError, match="not a run of dwcl"):
        check_free(tmp_path, replace=True)


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(FileError, match="is a file"):
        check_free(tmp_path / "run")
    with pytest.raises(FileError, match="Cannot write"):
        check_free(tmp_path / "run" / "below")


def test_a_failure_while_writing_leaves_nothing(
    tmp_path: Path, data: MultiView, model: DWCL, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dwcl.storage.run.write_json", full)
    with pytest.raises(FileError, match="No space left"):
        write_run(tmp_path / "run", model, data, facts={})
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_leaves_its_half_in_the_workshop(
    tmp_path: Path, data: MultiView, model: DWCL, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "workshop").mkdir()
    seen: list[Path] = []
    monkeypatch.setattr("dwcl.storage.run.sync_folder", seen.append)
    monkeypatch.setattr(
        "dwcl.storage.run.history_lines",
        lambda _: "".join(seen.append(path) or "" for path in (tmp_path / "workshop").iterdir()),
    )
    folder = write_run(tmp_path / "run", model, data, facts={}, workshop=tmp_path / "workshop")
    half, synced = seen
    assert half.parent == tmp_path / "workshop"
    assert not half.exists()
    assert folder.is_dir()
    assert synced == tmp_path  # the run's name is on the disk before anything else is removed


def test_a_run_is_known_by_what_it_was_made_of(
    tmp_path: Path, data: MultiView, small: dict[str, Any]
) -> None:
    model = DWCL(3, **small, random_state=0).fit(data)
    assert not is_written(tmp_path / "run", model, data)
    folder = write_run(tmp_path / "run", model, data, facts={})
    assert is_written(folder, DWCL(3, **small, random_state=0), data)
    assert not is_written(folder, DWCL(3, **small, random_state=1), data)
    assert not is_written(folder, DWCL(2, **small, random_state=0), data)
    assert not is_written(folder, DWCL(3, **small), data)
    assert not is_written(folder, DWCL(3, **small, random_state=0), data.take(range(39)))


def test_a_former_run_survives_a_failure(
    tmp_path: Path, data: MultiView, model: DWCL, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_run(tmp_path / "run", model, data, facts={"mark": 1})
    move = Path.replace

    def stuck(self: Path, target: Path) -> Path:
        if target == folder and not self.name.endswith(".former"):
            raise OSError(5, "Input/output error")
        return move(self, target)

    monkeypatch.setattr(Path, "replace", stuck)
    with pytest.raises(FileError, match=r"Cannot write .*run: Input/output error"):
        write_run(folder, model, data, facts={"mark": 2}, replace=True)
    assert read_run(folder)["mark"] == 1
    assert list(tmp_path.iterdir()) == [folder]


def test_the_reason_that_a_file_gives_is_kept(
    tmp_path: Path, data: MultiView, model: DWCL, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise FileError("Cannot write labels.csv: the disk is full.")

    monkeypatch.setattr("dwcl.storage.run.write_text", refuse)
    with pytest.raises(FileError, match=r"^Cannot write labels\.csv: the disk is full\.$"):
        write_run(tmp_path / "run", model, data, facts={})
    assert list(tmp_path.iterdir()) == []


def test_a_place_without_permission_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dwcl.storage.run.os.access", lambda *_: False)
    with pytest.raises(FileError, match=f"no permission in {tmp_path}"):
        check_free(tmp_path / "new" / "run")


def test_a_place_that_cannot_be_written_in_the_end(
    tmp_path: Path, data: MultiView, model: DWCL, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: Any) -> str:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("dwcl.storage.run.tempfile.mkdtemp", refuse)
    with pytest.raises(FileError, match="Read-only file system"):
        write_run(tmp_path / "run", model, data, facts={})


def test_one_cluster_has_no_next_one(data: MultiView) -> None:
    lines = labels_csv(data, np.full((40, 1), 0.5, np.float32)).splitlines()
    assert lines[:2] == ["sample,cluster,distance,next_distance", "s0,0,0.5,inf"]
    assert len(lines) == 41


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("run.json", "{}", "run.json does not state dwcl, method"),
        ("run.json", "[]", "run.json is garbled at the whole"),
        ("history.jsonl", "{}\n", "every line of history.jsonl must state its event"),
        ("history.jsonl", "3\n", "every line of history.jsonl must state its event"),
    ],
)
def test_a_run_that_lacks_something_is_damaged(
    tmp_path: Path, data: MultiView, model: DWCL, name: str, content: str, message: str
) -> None:
    folder = write_run(tmp_path / "run", model, data, facts={})
    (folder / name).write_text(content)
    with pytest.raises(ModelError, match=message):
        read_run(folder)


def test_what_is_not_a_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"run\.json is missing"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text("{")
    (tmp_path / "history.jsonl").write_text("")
    with pytest.raises(ModelError, match="cannot be read"):
        read_run(tmp_path)


def test_seconds_are_added_up_by_phase() -> None:
    history = [
        {"event": "epoch", "phase": "a", "seconds": 0.5},
        {"event": "assessment"},
        {"event": "epoch", "phase": "a", "seconds": 0.25},
        {"event": "epoch", "phase": "b", "seconds": 1.0},
    ]
    assert seconds_by_phase(history) == {"a": 0.75, "b": 1.0}
