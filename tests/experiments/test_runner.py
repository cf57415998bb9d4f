"""Experiments run once, in parallel as in turns, and go on from where they stopped."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import joblib
import pytest

from dwcl.errors import DwclError, TrainingError
from dwcl.experiments import runner
from dwcl.experiments.runner import Progress, run_experiment
from dwcl.experiments.spec import Spec, parse_spec, trials
from dwcl.experiments.store import Row, Store
from dwcl.experiments.trial import Outcome, key_of, load


@pytest.fixture
def spec(tiny: str) -> Spec:
    load.cache_clear()
    return parse_spec(tiny, "here")


def rows_of(spec: Spec, store: Path, **how: object) -> list[Row]:
    with Store(store) as opened:
        run_experiment(spec, opened, **how)  # type: ignore[arg-type]
        return opened.rows(spec.title)


def plain(rows: list[Row]) -> list[tuple[object, ...]]:
    """What must not depend on how an experiment was run."""
    return [
        (r.data, r.label, r.seed, r.key, r.state, r.facts.get("scores"), r.facts.get("settings"))
        for r in rows
    ]


def test_every_cell_has_its_run(spec: Spec, tmp_path: Path) -> None:
    rows = rows_of(spec, tmp_path / "store")
    assert [row.state for row in rows] == ["done"] * 6
    assert len({row.key for row in rows}) == 6
    for row in rows:
        assert row.facts["seed"] == row.seed
        assert row.facts["threads"] == 1
        assert 0 <= (row.score("acc") or -1) <= 1
        assert row.facts["peak_memory"] > 10e6
        assert row.facts["seconds_total"] > 0
    assert not Path(f"{tmp_path / 'store'}.unfinished").exists()


def test_runs_side_by_side_come_to_the_same(spec: Spec, tmp_path: Path) -> None:
    assert plain(rows_of(spec, tmp_path / "one")) == plain(rows_of(spec, tmp_path / "two", jobs=2))


def test_another_backend_of_joblib_serves(spec: Spec, tmp_path: Path) -> None:
    with joblib.parallel_config("threading"):
        found = rows_of(spec, tmp_path / "threads", jobs=2)
    assert plain(found) == plain(rows_of(spec, tmp_path / "one"))


def test_what_is_done_is_not_done_again(
    spec: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = plain(rows_of(spec, tmp_path / "store"))
    monkeypatch.setattr(runner, "run_trial", None)  # a call of it would fail
    assert plain(rows_of(spec, tmp_path / "store")) == before


def test_only_what_is_new_is_run(tiny: str, tmp_path: Path) -> None:
    rows_of(parse_spec(tiny, "here"), tmp_path / "store")
    more = parse_spec(tiny.replace("seeds = [0, 1]", "seeds = [1, 2]"), "here")
    seen: list[Progress] = []
    rows = rows_of(more, tmp_path / "store", watch=seen.append)
    assert [row.seed for row in rows] == [1, 2] * 3
    assert (seen[0].done, seen[0].total, seen[-1].done) == (3, 6, 6)
    assert {progress.last.seed for progress in seen if progress.last} == {2}


def test_equal_runs_of_two_columns_are_one(tiny: str, tmp_path: Path) -> None:
    text = tiny + '\n[[runs]]\nmethod = "kmeans"\nlabel = "again"\n'
    seen: list[Progress] = []
    rows = rows_of(parse_spec(text, "here"), tmp_path / "store", watch=seen.append)
    by_label = {(row.label, row.seed): row.key for row in rows}
    assert by_label["kmeans", 0] == by_label["again", 0]
    assert seen[-1].total == 6
    assert len(rows) == 8


def test_the_key_changes_with_all_that_decides(tiny: str, blobs: Path) -> None:
    from tests.experiments.conftest import write_blobs

    def keys(text: str) -> set[str]:
        load.cache_clear()
        return {key_of(trial) for trial in trials(parse_spec(text, "here"))}

    usual = keys(tiny)
    assert keys(tiny) == usual
    assert not keys(tiny.replace("n_init = 1", "n_init = 2")) & usual
    assert not keys(tiny.replace("seeds = [0, 1]", "seeds = [7]")) & usual
    assert len(keys(tiny.replace("latent = 4", "latent = 5")) & usual) == 2  # of k-means
    write_blobs(blobs, 61)
    assert not keys(tiny) & usual


def test_a_failed_run_is_shown_and_tried_again_on_request(tiny: str, tmp_path: Path) -> None:
    text = tiny + '\n[[runs]]\nmethod = "mflvc"\nsettings = { learning_rate = 1e30 }\n'
    spec = parse_spec(text, "here")
    failed = [row for row in rows_of(spec, tmp_path / "store") if row.state == "failed"]
    assert [row.label for row in failed] == ["mflvc"] * 2
    assert all("TrainingError: The loss" in row.error for row in failed)
    seen: list[Progress] = []
    rows_of(spec, tmp_path / "store", watch=seen.append)
    assert [(progress.done, progress.failed) for progress in seen] == [(8, 2)]
    seen.clear()
    rows_of(spec, tmp_path / "store", retry=True, watch=seen.append)
    assert [(progress.done, progress.failed) for progress in seen] == [(6, 0), (7, 1), (8, 2)]


def test_no_time_is_no_run_and_a_whole_store(spec: Spec, tmp_path: Path) -> None:
    rows = rows_of(spec, tmp_path / "store", hours=0.0)
    assert [row.state for row in rows] == ["open"] * 6
    assert [row.state for row in rows_of(spec, tmp_path / "store")] == ["done"] * 6


def test_a_run_that_the_deadline_ends_is_gone_on_with(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dwcl.experiments import trial as trials_

    spec = parse_spec(tiny, "here")
    expected = plain(rows_of(spec, tmp_path / "whole"))
    monkeypatch.setattr(trials_, "CHECKPOINT_SECONDS", 0.0)
    looks = iter(range(10**6))

    def look(self: object, record: object) -> None:
        if next(looks) % 3 == 2:
            raise trials_.OutOfTime

    monkeypatch.setattr(trials_._Deadline, "on_record", look)
    legs = 0
    while True:
        rows = rows_of(spec, tmp_path / "legs")
        legs += 1
        if all(row.state == "done" for row in rows):
            break
        assert legs < 40
    assert legs > 1
    assert plain(rows) == expected


def test_a_killed_worker_is_told_in_words(
    spec: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "run_trial", kill_itself)
    with Store(tmp_path / "store") as store, pytest.raises(TrainingError, match="fewer --jobs"):
        run_experiment(spec, store, jobs=2)


def kill_itself(*args: object) -> Outcome:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_data_without_labels_need_a_number_of_clusters(tmp_path: Path) -> None:
    (tmp_path / "bare.csv").write_text("a,b\n" + "".join(f"{i},{i * i}\n" for i in range(20)))
    source = (tmp_path / "bare.csv").as_posix()
    text = (
        f'title = "t"\nseeds = [0]\ndata = [{{ source = "{source}" }}]\n'
        '[[runs]]\nmethod = "kmeans"\n'
    )
    with pytest.raises(DwclError, match="clusters = K"):
        rows_of(parse_spec(text, "here"), tmp_path / "store")
    text = text.replace('bare.csv"', 'bare.csv", clusters = 3')
    (row,) = rows_of(parse_spec(text, "here"), tmp_path / "store")
    assert row.state == "done"
    assert row.score("acc") is None


SCRIPT = """
import sys
import time
from pathlib import Path
from dwcl.experiments import trial
from dwcl.experiments.runner import run_experiment
from dwcl.experiments.spec import read_spec
from dwcl.experiments.store import Store
trial.CHECKPOINT_SECONDS = 0.0
with Store(Path(sys.argv[2])) as store:
    run_experiment(read_spec(sys.argv[1]), store)
"""


@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 2, 3))])
def test_killed_at_any_moment_nothing_is_lost_and_nothing_repeated(
    seed: int, tiny: str, tmp_path: Path
) -> None:
    text = tiny.replace("pretrain_epochs = 2", "pretrain_epochs = 30")
    (tmp_path / "spec.toml").write_text(text)
    store = tmp_path / "store"
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "spec.toml"), str(store)]
    rng = random.Random(seed)
    finished: dict[str, str] = {}
    kills = 0
    while True:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if kills < 4:
            wait_for_more(store, len(finished), process)
            time.sleep(0.3 * rng.random())
            process.kill()
            kills += 1
        process.wait()
        now = finish_times(store)
        assert finished.items() <= now.items()  # what was done is still there, and the same
        finished = now
        if process.returncode == 0:
            break
    assert kills == 4
    assert len(finished) == 6
    expected = plain(rows_of(parse_spec(text, "here"), tmp_path / "whole"))
    with Store(store) as opened:
        assert plain(opened.rows("tiny")) == expected
    assert not Path(f"{store}.unfinished").exists()


def wait_for_more(store: Path, before: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a run has come to its end, or one that learns has a checkpoint."""
    workshop = Path(f"{store}.unfinished")
    while process.poll() is None:
        if len(finish_times(store)) > before or list(workshop.glob("*/checkpoint-*.json")):
            return
        time.sleep(0.02)


def finish_times(store: Path) -> dict[str, str]:
    if not store.exists():
        return {}
    connection = sqlite3.connect(store, timeout=30)
    try:
        return dict(connection.execute("SELECT key, finished || seconds FROM runs"))
    except sqlite3.OperationalError:  # killed before the tables were there
        return {}
    finally:
        connection.close()
