"""The folder of a run that has not ended."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dwcl.errors import FileError, ModelError
from dwcl.storage.unfinished import Unfinished, what_to_do


def test_a_job_is_noted_and_read_again(tmp_path: Path) -> None:
    unfinished = Unfinished(tmp_path / "run")
    with unfinished.held():
        unfinished.begin({"method": "dwcl", "settings": {"encoder": [5]}})
        assert unfinished.folder.name == "run.unfinished"
        assert Unfinished(tmp_path / "run.unfinished").job() == unfinished.job()
        assert unfinished.job() == {"method": "dwcl", "settings": {"encoder": [5]}}
        assert not unfinished.has_checkpoint
    assert list(tmp_path.iterdir()) == []  # nothing was saved, so nothing is left to go on from


def test_a_run_under_way_is_left_to_its_process(tmp_path: Path) -> None:
    with Unfinished(tmp_path / "new" / "run").held():
        second = Unfinished(tmp_path / "new" / "run")
        with pytest.raises(FileError, match=rf"Another run \(process {os.getpid()}\)"):
            second.held().__enter__()
    assert list(tmp_path.iterdir()) == []  # nor the folder that was made to hold it


def test_folders_that_hold_something_else_by_now_stay(tmp_path: Path) -> None:
    unfinished = Unfinished(tmp_path / "new" / "run")
    with unfinished.held():
        unfinished.begin({})
        (tmp_path / "new" / "other").touch()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["other"]


def test_a_folder_may_be_named_by_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.unfinished").mkdir()
    monkeypatch.chdir(tmp_path / "run.unfinished")
    assert Unfinished(Path()).run == tmp_path / "run"


def test_what_can_be_gone_on_with_is_not_overwritten(tmp_path: Path) -> None:
    unfinished = Unfinished(tmp_path / "run")
    with unfinished.held():
        unfinished.begin({"n": 1})
        unfinished.begin({"n": 2})  # nothing was saved, so nothing is lost
        (unfinished.folder / "checkpoint-000001.json").write_text("{}")
        with pytest.raises(FileError, match=r"Go on with it: dwcl resume .*run"):
            unfinished.begin({"n": 3})
        assert unfinished.job() == {"n": 2}
    assert unfinished.job() == {"n": 2}  # it can be gone on with, so it stays
    with unfinished.held():
        (unfinished.folder / "older").mkdir()
        unfinished.begin({"n": 4}, replace=True)
        assert unfinished.job() == {"n": 4}
        assert not unfinished.has_checkpoint
        assert not (unfinished.folder / "older").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    unfinished = Unfinished(tmp_path / "run")
    unfinished.folder.mkdir()
    (unfinished.folder / "thesis.tex").write_text("years of work")
    with pytest.raises(FileError, match="not an unfinished run"):
        unfinished.held().__enter__()
    assert (unfinished.folder / "thesis.tex").exists()


def test_what_a_process_killed_at_the_very_start_left_is_its_own(tmp_path: Path) -> None:
    unfinished = Unfinished(tmp_path / "run")
    unfinished.folder.mkdir()
    (unfinished.folder / ".job.json.x7gh2").write_text('{"form')
    with unfinished.held():
        unfinished.begin({"n": 1})
        assert sorted(p.name for p in unfinished.folder.iterdir()) == ["job.json", "run.lock"]


def test_a_process_killed_while_it_tidied_up_leaves_what_is_known_as_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished = Unfinished(tmp_path / "run")
    unfinished.folder.mkdir()
    unfinished.begin({"n": 1})
    for name in ("a", "checkpoint-000001.json", "zzz"):
        (unfinished.folder / name).touch()
    left = 3
    original = Path.unlink

    def unlink(self: Path, missing_ok: bool = False) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        original(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    with pytest.raises(KeyboardInterrupt):
        unfinished.discard()
    monkeypatch.undo()
    assert [path.name for path in unfinished.folder.iterdir()] == ["job.json"]
    with unfinished.held():
        assert unfinished.job() == {"n": 1}


def test_a_missing_or_garbled_job_is_told(tmp_path: Path) -> None:
    unfinished = Unfinished(tmp_path / "run")
    with pytest.raises(ModelError, match="There is no unfinished run"):
        unfinished.job()
    unfinished.run.mkdir()
    (unfinished.run / "run.json").write_text("{}")
    with pytest.raises(ModelError, match="It has ended already"):
        unfinished.job()
    unfinished.folder.mkdir()
    unfinished.begin({"n": 1})
    path = unfinished.folder / "job.json"
    path.write_text(json.dumps({"format": 9}))
    with pytest.raises(ModelError, match="has format 9"):
        unfinished.job()
    path.write_text("[")
    with pytest.raises(ModelError, match="cannot be read"):
        unfinished.job()


def test_advice_depends_on_what_there_is(tmp_path: Path) -> None:
    assert what_to_do(tmp_path / "run") == "Give the folder that 'dwcl fit' wrote."
    (tmp_path / "run.unfinished").mkdir()
    (tmp_path / "run.unfinished" / "checkpoint-000001.json").write_text("{}")
    assert "dwcl resume" in what_to_do(tmp_path / "run")
