"""Records of an experiment: what its tables rest on, as JSON lines that can be committed.

A line holds one run: the cell that it belongs to, the key that a store knows it by, and what was
done with what and came out (no samples, no networks, no history).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dwcl.errors import DataError, FileError
from dwcl.experiments.store import Row, Store
from dwcl.files import write_text

_LEFT_OUT = ("notes", "cluster_sizes", "pair_weights", "feature_widths")


def write_journal(path: Path, store: Store, rows: Sequence[Row]) -> int:
    """Write the runs of an experiment that are done; returns how many.

    Runs that failed are no results, so they hinder: they are to be mended first, or shown in a
    table, which has them.
    """
    lines = [json.dumps(_record(row, store.finished(row.key))) for row in rows if row.facts]
    write_text(path, "".join(f"{line}\n" for line in lines))
    return len(lines)


def _record(row: Row, finished: str) -> dict[str, Any]:
    facts = {name: value for name, value in row.facts.items() if name not in _LEFT_OUT}
    return {
        "key": row.key,
        "cell": {
            "experiment": row.experiment,
            "data": row.data,
            "label": row.label,
            "seed": row.seed,
        },
        "finished": finished,
        "facts": facts,
    }


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Read records, and refuse a file that holds something else."""
    try:
        lines = path.read_text("utf-8").splitlines()
        records = [json.loads(line) for line in lines]
    except (OSError, ValueError) as failure:
        raise FileError(f"The records in {path} cannot be read: {failure}.") from None
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict) or not {"key", "cell", "finished", "facts"} <= set(record):
            raise DataError(
                f"Line {number} of {path} is no record of an experiment; "
                "'dwcl bench export' writes such files."
            )
    return records


def rows_of(records: Sequence[dict[str, Any]]) -> list[Row]:
    """Return the rows of a table that records stand for."""
    return [
        Row(**record["cell"], key=record["key"], state="done", facts=record["facts"], error="")
        for record in records
    ]
