"""The store of an experiment: a SQLite file with a row per run, whole at every moment."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from dwcl.errors import FileError
from dwcl.experiments.spec import Trial
from dwcl.experiments.trial import Outcome

VERSION = 1
_TABLES = """
CREATE TABLE runs (
    key TEXT PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('done', 'failed')),
    method TEXT NOT NULL,
    data TEXT NOT NULL,
    seed INTEGER NOT NULL,
    acc REAL, nmi REAL, ari REAL,
    seconds REAL,
    peak_memory INTEGER,
    error TEXT NOT NULL,
    finished TEXT NOT NULL,
    facts TEXT NOT NULL,
    history TEXT NOT NULL
);
CREATE TABLE cells (
    experiment TEXT NOT NULL,
    position INTEGER NOT NULL,
    data TEXT NOT NULL,
    label TEXT NOT NULL,
    seed INTEGER NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (experiment, data, label, seed)
);
"""


@dataclass(frozen=True)
class Row:
    """A cell of an experiment's table for one seed, with what is known of its run.

    Attributes
    ----------
    experiment, data, label : str
        The specification's title, and the row and the column of the cell.
    seed : int
    key : str
        Of the run.
    state : str
        ``done``, ``failed``, or ``open``.
    facts : dict
        Empty unless it is done.
    error : str
        Why it failed.
    """

    experiment: str
    data: str
    label: str
    seed: int
    key: str
    state: str
    facts: Mapping[str, Any]
    error: str

    def score(self, metric: str) -> float | None:
        """Return a score of the clusters, None where there is none."""
        scores = self.facts.get("scores", {}).get("clusters", {})
        value: float | None = scores.get(metric)
        return value


class Store:
    """An open store.

    One process writes; others may read meanwhile (write-ahead log). Each run is one transaction:
    killed at any moment, the file holds what was finished before.
    """

    def __init__(self, path: Path, *, new: bool = True) -> None:
        if not new and not path.is_file():
            raise FileError(f"There is no store {path}; 'dwcl bench run' makes one.")
        if not path.parent.is_dir():
            raise FileError(f"Cannot make the store {path}: there is no folder {path.parent}.")
        self.path = path
        try:
            self._db = sqlite3.connect(path, timeout=30)
            self._prepare()
        except sqlite3.DatabaseError as failure:
            raise FileError(
                f"{path} cannot be used as a store: {failure}. Give another file with --store."
            ) from None

    def _prepare(self) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        tables = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if version not in (0, VERSION) or (version == 0 and tables):
            self._db.close()
            raise FileError(
                f"{self.path} is a database, but no store of this version of dwcl. "
                "Give another file with --store."
            )
        self._db.execute("PRAGMA journal_mode = WAL")
        if version == 0:
            with self._db:
                self._db.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    # -- writing -----------------------------------------------------------------------------------

    def enter(self, experiment: str, trials: Sequence[tuple[Trial, str]]) -> None:
        """Note which cells an experiment has; those of an earlier form of it are forgotten."""
        rows = [
            (experiment, position, trial.data.title, trial.column, trial.seed, key)
            for position, (trial, key) in enumerate(trials)
        ]
        with self._db:
            self._db.execute("DELETE FROM cells WHERE experiment = ?", (experiment,))
            self._db.executemany("INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?)", rows)

    def save(self, trial: Trial, outcome: Outcome) -> None:
        """Keep what came of a run; a failed one gives way to a later attempt."""
        scores = outcome.facts.get("scores", {}).get("clusters", {})
        self._insert(
            outcome.key,
            outcome.state,
            trial.method,
            trial.data.title,
            trial.seed,
            *(scores.get(name) for name in ("acc", "nmi", "ari")),
            outcome.facts.get("seconds_total"),
            outcome.facts.get("peak_memory"),
            outcome.error,
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            json.dumps(outcome.facts),
            json.dumps(outcome.history),
        )

    def take_over(self, records: Iterable[Mapping[str, Any]]) -> int:
        """Take runs over from records, unless they are here; returns how many."""
        known, taken = self.states(), 0
        for record in records:
            if known.get(record["key"]) == "done":
                continue
            cell, facts = record["cell"], record["facts"]
            scores = facts.get("scores", {}).get("clusters", {})
            self._insert(
                record["key"],
                "done",
                facts["method"],
                cell["data"],
                facts["seed"],
                *(scores.get(name) for name in ("acc", "nmi", "ari")),
                facts.get("seconds_total"),
                facts.get("peak_memory"),
                "",
                record["finished"],
                json.dumps(facts),
                "[]",
            )
            taken += 1
        return taken

    def _insert(self, *values: Any) -> None:
        marks = ", ".join("?" * len(values))
        with self._db:
            self._db.execute(f"INSERT OR REPLACE INTO runs VALUES ({marks})", values)  # noqa: S608

    # -- reading -----------------------------------------------------------------------------------

    def states(self) -> dict[str, str]:
        """Return the state of every run by its key."""
        return dict(self._db.execute("SELECT key, state FROM runs"))

    def experiments(self) -> list[str]:
        """List the titles of the experiments."""
        found = self._db.execute("SELECT DISTINCT experiment FROM cells ORDER BY experiment")
        return [title for (title,) in found]

    def rows(self, experiment: str) -> list[Row]:
        """Return all cells of an experiment in its order."""
        with closing(
            self._db.execute(
                "SELECT c.data, c.label, c.seed, c.key, r.state, r.facts, r.error FROM cells c "
                "LEFT JOIN runs r USING (key) WHERE experiment = ? ORDER BY position",
                (experiment,),
            )
        ) as found:
            return [
                Row(
                    experiment=experiment,
                    data=data,
                    label=label,
                    seed=seed,
                    key=key,
                    state=state or "open",
                    facts=json.loads(facts) if facts else {},
                    error=error or "",
                )
                for data, label, seed, key, state, facts, error in found
            ]

    def history(self, key: str) -> list[dict[str, Any]]:
        """Return the history of a run."""
        found = self._db.execute("SELECT history FROM runs WHERE key = ?", (key,)).fetchone()
        history: list[dict[str, Any]] = json.loads(found[0]) if found else []
        return history

    def finished(self, key: str) -> str:
        """Return when a run was finished."""
        found = self._db.execute("SELECT finished FROM runs WHERE key = ?", (key,)).fetchone()
        return str(found[0]) if found else ""

    def seconds(self) -> dict[tuple[str, str], float]:
        """Return the mean time of the runs that are done, by method and data."""
        found = self._db.execute(
            "SELECT method, data, avg(seconds) FROM runs WHERE state = 'done' GROUP BY 1, 2"
        )
        return {(method, data): mean for method, data, mean in found if mean is not None}
