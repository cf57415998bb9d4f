"""Run records: what a figure in the documents rests on, as JSON lines that can be committed.

``python -m dwcl.experiments.records TABLE RECORDS PAGE [COMMIT RUN …]`` adds run folders, made by
the code of a commit, to a file of records and writes the table of that name that follows from all
its records into a page, between two marks. Tables: ``defaults``, ``methods``, ``precision``. A file
of records may also be one that ``dwcl bench export`` has written; then it is complete as it is.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from dwcl.errors import DataError, FileError
from dwcl.files import write_text
from dwcl.storage.run import read_run

ROWS = (("clusters", "DWCL"), ("concat-ae", "k-means on all H (Concat-AE)"), ("bsv", "BSV"))
SCORES = ("acc", "nmi", "ari")
_KEPT = (
    "dwcl", "method", "recipe", "settings", "seed", "n_clusters", "scaling", "precision", "device",
    "threads", "versions", "machine", "seconds", "seconds_total", "best_view", "view_quality",
)  # fmt: skip


def record_of_run(folder: Path, commit: str) -> dict[str, Any]:
    """Condense a run folder into one record: hashes, versions, settings and scores, no samples."""
    facts = read_run(folder)
    if "scores" not in facts:
        raise DataError(f"The run in {folder} has no scores: its data had no labels.")
    data = facts["data"]
    scores = facts["scores"]
    return {
        "data": Path(str(data["source"])).stem.removeprefix("catalogue:"),
        "commit": commit,
        **{key: data[key] for key in ("sha256", "fingerprint", "n_samples", "views")},
        **{key: facts[key] for key in _KEPT if key in facts},
        "scores": {"clusters": scores["clusters"], **scores.get("baselines", {})},
        "view_scores": scores.get("views"),
    }


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read a file of records; none where there is no file yet."""
    if not path.exists():
        return []
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [_of_experiment(record) if "cell" in record else record for record in records]


def _of_experiment(record: dict[str, Any]) -> dict[str, Any]:
    """Give a record of an experiment the form of one of a run folder; a column is a method."""
    cell, facts = record["cell"], record["facts"]
    scores = facts["scores"]
    return {
        **facts,
        "data": cell["data"],
        **{name: facts["data"][name] for name in ("sha256", "fingerprint", "n_samples", "views")},
        "method": cell["label"],
        "scores": {"clusters": scores["clusters"], **scores.get("baselines", {})},
        "from": "experiment",
    }


def defaults_table(records: Iterable[dict[str, Any]]) -> str:
    """Set DWCL beside its own pre-training: mean ± deviation over the seeds, in percent."""
    rows = []
    for name, group in _grouped(records, "data").items():
        for position, (key, title) in enumerate(ROWS):
            first = position == 0
            row = (name, _seeds(group), title) if first else ("", "", title)
            rows.append((*row, *_scores(group, key), _seconds(group) if first else ""))
    return _table(("data", "seeds", "", "ACC", "NMI", "ARI", "seconds"), rows)


def table_by(key: Literal["method", "precision"], records: Iterable[dict[str, Any]]) -> str:
    """Set methods or precisions side by side on each data set: mean ± deviation, in percent."""
    rows = []
    for name, of_data in _grouped(records, "data").items():
        for position, (value, group) in enumerate(_grouped(of_data, key).items()):
            cells = (*_scores(group, "clusters"), _seconds(group))
            rows.append((name if position == 0 else "", value, _seeds(group), *cells))
    return _table(("data", key, "seeds", "ACC", "NMI", "ARI", "seconds"), rows)


TABLES: dict[str, Callable[[Iterable[dict[str, Any]]], str]] = {
    "defaults": defaults_table,
    "methods": partial(table_by, "method"),
    "precision": partial(table_by, "precision"),
}


def _grouped(records: Iterable[dict[str, Any]], key: str) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(record[key], []).append(record)
    return dict(sorted(groups.items()))


def _seeds(group: Iterable[dict[str, Any]]) -> str:
    return ", ".join(str(record["seed"]) for record in group)


def _seconds(group: Iterable[dict[str, Any]]) -> str:
    return f"{statistics.mean(record['seconds_total'] for record in group):.0f}"


def _scores(group: Iterable[dict[str, Any]], key: str) -> list[str]:
    found = [record["scores"][key] for record in group]
    return [spread([100 * scores[name] for scores in found]) for name in SCORES]


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(values: Sequence[float]) -> str:
    """Word a mean with the standard deviation over the runs; one run has none."""
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"


def fill_page(page: str, name: str, table: str) -> str:
    """Put the table of a name between its marks in a page."""
    marks = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, begin, rest = page.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        raise DataError(
            f"The page lacks the marks {marks[0]} and {marks[1]}, between which the table goes."
        )
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


def add(records: Iterable[dict[str, Any]], new: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add records, in place of those of the same run, in a fixed order."""
    by_key = {_key(record): record for record in (*records, *new)}
    return [by_key[key] for key in sorted(by_key)]


def main(arguments: Sequence[str]) -> None:
    """Add runs to the records and renew the page."""
    if len(arguments) < 3 or arguments[0] not in TABLES:
        raise SystemExit(f"usage: {(__doc__ or '').split('``')[1]}")
    name, records_path, page_path = arguments[0], *map(Path, arguments[1:3])
    if not page_path.is_file():
        raise FileError(f"There is no page {page_path}.")
    records = read_records(records_path)
    if arguments[3:]:
        if any("from" in record for record in records):
            raise DataError(f"{records_path} holds an experiment; run folders are no part of it.")
        commit, *runs = arguments[3:]
        records = add(records, [record_of_run(Path(run), commit) for run in runs])
        write_text(records_path, "".join(json.dumps(record) + "\n" for record in records))
    page = fill_page(page_path.read_text("utf-8"), name, TABLES[name](records))
    write_text(page_path, page)


def _key(record: dict[str, Any]) -> tuple[str, ...]:
    """Name what makes a run another one: data, method, recipe and settings with the seed."""
    parts = (record["data"], record["method"], record.get("recipe"), record["seed"])
    return (*map(str, parts), json.dumps(record.get("settings"), sort_keys=True))


if __name__ == "__main__":
    main(sys.argv[1:])
