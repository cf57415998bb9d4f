"""The store is a SQLite file that others may read, and refuses what is none."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from dwcl.errors import FileError
from dwcl.experiments.journal import read_journal, rows_of, write_journal
from dwcl.experiments.runner import run_experiment
from dwcl.experiments.spec import parse_spec
from dwcl.experiments.store import Store


@pytest.fixture
def filled(tiny: str, tmp_path: Path) -> Path:
    with Store(tmp_path / "filled.sqlite") as store:
        run_experiment(parse_spec(tiny, "here"), store)
    return tmp_path / "filled.sqlite"


def test_others_read_while_one_writes(filled: Path) -> None:
    with Store(filled) as store:
        mode = sqlite3.connect(filled).execute("PRAGMA journal_mode").fetchone()[0]
        assert mode == "wal"
        assert store.experiments() == ["tiny"]
        assert len(Store(filled).rows("tiny")) == 6


def test_histories_are_kept_for_the_store_alone(filled: Path, tmp_path: Path) -> None:
    with Store(filled) as store:
        rows = store.rows("tiny")
        (trained, *_) = [row for row in rows if row.label.startswith("concat")]
        assert [r["epoch"] for r in store.history(trained.key) if r["event"] == "epoch"] == [1, 2]
        assert store.history("no such key") == []
        assert write_journal(tmp_path / "out.jsonl", store, rows) == 6
    assert "history" not in (tmp_path / "out.jsonl").read_text()


def test_records_bring_runs_to_another_store(filled: Path, tiny: str, tmp_path: Path) -> None:
    with Store(filled) as store:
        rows = store.rows("tiny")
        write_journal(tmp_path / "out.jsonl", store, rows)
    records = read_journal(tmp_path / "out.jsonl")
    assert [(r.label, r.seed, r.score("acc")) for r in rows_of(records)] == [
        (r.label, r.seed, r.score("acc")) for r in rows
    ]
    with Store(tmp_path / "other.sqlite") as other:
        assert other.take_over(records) == 6
        assert other.take_over(records) == 0
        seen = []
        run_experiment(parse_spec(tiny, "here"), other, watch=seen.append)
        assert [(progress.done, progress.total) for progress in seen] == [(6, 6)]
        assert [row.facts["scores"] for row in other.rows("tiny")] == [
            row.facts["scores"] for row in rows
        ]


@pytest.mark.parametrize("content", [b"not a database at all, whatever the name", b"{}\n" * 100])
def test_what_is_no_database_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(content)
    with pytest.raises(FileError, match="cannot be used as a store"):
        Store(tmp_path / "store")
    assert (tmp_path / "store").read_bytes() == content


def test_a_database_of_somebody_else_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "db") as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    with pytest.raises(FileError, match="no store of this version"):
        Store(tmp_path / "db")


def test_places_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no folder"):
        Store(tmp_path / "none" / "store")
    with pytest.raises(FileError, match="There is no store"):
        Store(tmp_path / "store", new=False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["no json\n", "[1]\n", '{"key": 1}\n'])
def test_records_that_are_none_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text(text)
    with pytest.raises(FileError if text[0] == "n" else Exception, match="record"):
        read_journal(tmp_path / "r.jsonl")
