"""Run records: what a figure in the documents rests on, as JSON lines that can be committed.

``python -m dwcl.experiments.records RECORDS PAGE COMMIT [RUN …]`` adds runs, made by the code of a
commit, to a file of records and writes the table that follows from all its records into a page,
between two marks.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dwcl.errors import DataError, FileError
from dwcl.files import write_text
from dwcl.storage.run import read_run

BEGIN, END = "<!-- records: begin -->", "<!-- records: end -->"
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
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def results_table(records: Iterable[dict[str, Any]]) -> str:
    """Lay out mean ± standard deviation over the seeds, in percent, as a Markdown table."""
    by_data: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        by_data.setdefault(record["data"], []).append(record)
    lines = [
        "| data | seeds | | ACC | NMI | ARI | seconds |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, group in sorted(by_data.items()):
        seeds = ", ".join(str(record["seed"]) for record in group)
        for position, (key, title) in enumerate(ROWS):
            cells = [spread([100 * r["scores"][key][score] for r in group]) for score in SCORES]
            seconds = f"{statistics.mean(r['seconds_total'] for r in group):.0f}"
            first = position == 0
            row = (name if first else "", seeds if first else "", title, *cells)
            lines.append(f"| {' | '.join(row)} | {seconds if first else ''} |")
    return "\n".join(lines)


def spread(values: Sequence[float]) -> str:
    """Word a mean with the standard deviation over the runs; one run has none."""
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"


def fill_page(page: str, table: str) -> str:
    """Put a table between the marks of a page."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise DataError(
            f"The page lacks the marks {BEGIN} and {END}, between which the table goes."
        )
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def add(records: Iterable[dict[str, Any]], new: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add records, in place of those of the same run, in a fixed order."""
    by_key = {_key(record): record for record in (*records, *new)}
    return [by_key[key] for key in sorted(by_key)]


def main(arguments: Sequence[str]) -> None:
    """Add runs to the records and renew the page."""
    if len(arguments) < 3:
        raise SystemExit(f"usage: {(__doc__ or '').split('``')[1]}")
    records_path, page_path, commit = Path(arguments[0]), Path(arguments[1]), arguments[2]
    if not page_path.is_file():
        raise FileError(f"There is no page {page_path}.")
    added = [record_of_run(Path(folder), commit) for folder in arguments[3:]]
    records = add(read_records(records_path), added)
    write_text(records_path, "".join(json.dumps(record) + "\n" for record in records))
    write_text(page_path, fill_page(page_path.read_text("utf-8"), results_table(records)))


def _key(record: dict[str, Any]) -> tuple[str, ...]:
    """Name what makes a run another one: data, method, recipe and settings with the seed."""
    parts = (record["data"], record["method"], record.get("recipe"), record["seed"])
    return (*map(str, parts), json.dumps(record.get("settings"), sort_keys=True))


if __name__ == "__main__":
    main(sys.argv[1:])
