"""Tables of an experiment for documents and programs: Markdown, LaTeX, CSV, Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dwcl.errors import DataError, SettingError, nearest
from dwcl.experiments.store import Row
from dwcl.experiments.summary import METRICS, Summary, value_of, words
from dwcl.files import write_bytes

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "–": "--",
}  # fmt: skip


def markdown(summary: Summary) -> str:
    """Word a summary as a table of Markdown."""
    header, *rows = _grid(summary)
    lines = [header, ["---"] * len(header), *rows]
    cells = ([cell.replace("|", r"\|") for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def latex(summary: Summary) -> str:
    """Word a summary as a tabular of LaTeX, with the rules of booktabs."""
    header, *rows = [[_escaped(cell) for cell in line] for line in _grid(summary)]
    body = [r"\toprule", _line(header), r"\midrule", *map(_line, rows), r"\bottomrule"]
    columns = "l" + "r" * (len(header) - 1)
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", *body, r"\end{tabular}"]) + "\n"


def csv_of(rows: Sequence[Row]) -> str:
    """Word all runs as a table with a line for each."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_flat(row) for row in rows)
    return text.getvalue()


def parquet_of(rows: Sequence[Row]) -> bytes:
    """Pack all runs as a Parquet file with a line for each."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise DataError(
            "Parquet needs pyarrow, which is not installed: pip install 'dwcl[tables]'."
        ) from None
    table = pa.Table.from_pylist([_flat(row) for row in rows], schema=_schema(pa))
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return sink.getvalue()


def export(rows: Sequence[Row], path: Path, summary: Summary) -> None:
    """Write a file in the format that its ending names."""
    makers: Mapping[str, Callable[[], bytes]] = {
        ".md": lambda: markdown(summary).encode(),
        ".tex": lambda: latex(summary).encode(),
        ".csv": lambda: csv_of(rows).encode(),
        ".parquet": lambda: parquet_of(rows),
    }
    if path.suffix not in makers:
        raise SettingError(
            f"{path.name} has no ending that names a format. {nearest(path.suffix, makers)}"
        )
    write_bytes(path, makers[path.suffix]())


_COLUMNS = ("experiment", "data", "label", "method", "recipe", "seed", "state", *METRICS, "error")


def _flat(row: Row) -> dict[str, Any]:
    return {
        "experiment": row.experiment,
        "data": row.data,
        "label": row.label,
        "method": row.facts.get("method"),
        "recipe": row.facts.get("recipe"),
        "seed": row.seed,
        "state": row.state,
        **{metric: value_of(row, metric) for metric in METRICS},
        "error": row.error,
    }


def _schema(pa: Any) -> Any:
    kinds = {"seed": pa.int64(), "peak_memory": pa.int64()}
    kinds |= dict.fromkeys((m for m in METRICS if m != "peak_memory"), pa.float64())
    return pa.schema([(name, kinds.get(name, pa.string())) for name in _COLUMNS])


def _grid(summary: Summary) -> list[list[str]]:
    header = ["data", *summary.labels]
    rows = [
        [name]
        + [words(summary.cells.get((name, label)), summary.metric) for label in summary.labels]
        for name in summary.data
    ]
    return [header, *rows]


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
