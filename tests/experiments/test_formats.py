"""Tables say mean, deviation, number of runs and what failed, in every format."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from dwcl.errors import SettingError
from dwcl.experiments.formats import csv_of, export, latex, markdown
from dwcl.experiments.store import Row
from dwcl.experiments.summary import summarise, words


def row(label: str, seed: int, acc: float | None, *, data: str = "a_b", state: str = "done") -> Row:
    facts = {}
    if state == "done":
        facts = {"method": "m", "seconds_total": 2.0 + seed, "peak_memory": 10**9, "recipe": None}
        facts |= {} if acc is None else {"scores": {"clusters": {"acc": acc, "nmi": 0.5}}}
    return Row("t", data, label, seed, f"{label}{seed}{data}", state, facts, "why" * (acc is None))


ROWS = [
    row("one & only", 0, 0.5),
    row("one & only", 1, 0.7),
    row("two|three", 0, 0.9),
    row("two|three", 1, None, state="failed"),
    row("two|three", 2, None, state="open"),
    row("one & only", 0, 0.25, data="c"),
]


def test_cells_by_hand() -> None:
    found = summarise(ROWS, "acc")
    assert (found.data, found.labels) == (("a_b", "c"), ("one & only", "two|three"))
    # The standard deviation of 50 and 70 is √200.
    assert words(found.cells["a_b", "one & only"], "acc") == "60.0 ± 14.1 (2)"
    assert words(found.cells["a_b", "two|three"], "acc") == "90.0 (1), 1 failed, 1 open"
    assert words(found.cells.get(("c", "two|three")), "acc") == "–"
    assert (
        words(summarise(ROWS, "seconds").cells["a_b", "one & only"], "seconds") == "2.5 ± 0.7 (2)"
    )
    memory = summarise(ROWS, "peak_memory").cells["a_b", "one & only"]
    assert words(memory, "peak_memory") == "1.00 ± 0.00 (2)"
    assert words(summarise(ROWS, "f").cells["c", "one & only"], "f") == "no score"
    assert found.complete() == ["a_b"]


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(SettingError, match="no metric 'auc'"):
        summarise(ROWS, "auc")


def test_markdown_and_latex() -> None:
    found = summarise(ROWS, "acc")
    assert markdown(found).splitlines() == [
        r"| data | one & only | two\|three |",
        "| --- | --- | --- |",
        "| a_b | 60.0 ± 14.1 (2) | 90.0 (1), 1 failed, 1 open |",
        "| c | 25.0 (1) | – |",
    ]
    assert latex(found).splitlines() == [
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"data & one \& only & two|three \\",
        r"\midrule",
        r"a\_b & 60.0 $\pm$ 14.1 (2) & 90.0 (1), 1 failed, 1 open \\",
        r"c & 25.0 (1) & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_csv_has_a_line_for_each_run() -> None:
    lines = list(csv.DictReader(io.StringIO(csv_of(ROWS))))
    assert len(lines) == len(ROWS)
    assert lines[1]["acc"] == "0.7"
    assert (lines[3]["state"], lines[3]["acc"], lines[3]["error"]) == ("failed", "", "why")


def test_files_by_their_endings(tmp_path: Path) -> None:
    found = summarise(ROWS, "acc")
    for ending in (".md", ".tex", ".csv", ".parquet"):
        export(ROWS, tmp_path / f"out{ending}", found)
    assert (tmp_path / "out.md").read_text() == markdown(found)
    assert (tmp_path / "out.tex").read_text() == latex(found)
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [line["acc"] for line in table] == [0.5, 0.7, 0.9, None, None, 0.25]
    with pytest.raises(SettingError, match="names a format"):
        export(ROWS, tmp_path / "out.doc", found)
    assert not (tmp_path / "out.doc").exists()
