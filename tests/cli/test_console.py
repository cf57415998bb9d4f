"""Results go to standard output as they are, in tables that fit."""

from __future__ import annotations

import errno
import io
import json
import math
from io import StringIO
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from dwcl.cli.console import messages, output, print_json, put_up_with_few_letters
from dwcl.cli.tables import sizes_line, views_table, weight_with_best


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": math.nan, "b": [math.inf, 1.5]}, {"a": None, "b": [None, 1.5]}),
        ({"n": np.int64(3), "x": np.float32(0.5)}, {"n": 3, "x": 0.5}),
        ({"x": np.float64("nan"), "t": (1, 2)}, {"x": None, "t": [1, 2]}),
        ({1: "é", "ok": True, "none": None}, {"1": "é", "ok": True, "none": None}),
    ],
)
def test_json_is_strict(capsys: pytest.CaptureFixture[str], value: Any, expected: Any) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    print_json(value)
    printed = capsys.readouterr().out
    assert json.loads(printed, parse_constant=refuse) == expected
    assert printed.count("\n") == 1


SCORES = dict.fromkeys(("acc", "nmi", "ari", "purity", "f"), 0.5)


def facts(**others: Any) -> dict[str, Any]:
    return {
        "method": "dwcl",
        "n_clusters": 3,
        "data": {"views": {"a": 4, "b": 10}},
        "best_view": "b",
        "view_quality": {"a": 0.25, "b": 0.75},
        "pair_weights": [
            {"views": ["a", "b"], "terms": 2, "weight": 3.0},
            {"views": ["b", "b"], "terms": 1, "weight": 7.0},
        ],
        **others,
    }


def shown(stated: dict[str, Any], width: int = 80) -> list[str]:
    console = Console(file=StringIO(), width=width)
    console.print(views_table(stated))
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_table_of_views() -> None:
    rows = [line.split() for line in shown(facts())]
    assert ["DWCL,", "3", "clusters"] in rows
    assert ["view", "width", "quality", "weight"] in rows
    assert ["a", "4", "0.250", "1.500"] in rows  # the weight of one of the two terms
    assert ["b", "(best)", "10", "0.750", "7.000"] in rows
    assert ["all", "views", "14"] in rows


def test_the_table_with_scores_fits_80_columns() -> None:
    scores = {"clusters": SCORES, "views": {"a": SCORES, "b": SCORES | {"f": 0.125}}}
    lines = shown(facts(scores=scores | {"baselines": {"bsv": SCORES, "concat-ae": SCORES}}))
    assert max(map(len, lines)) <= 80
    rows = [line.split() for line in lines]
    assert ["b", "(best)", "10", "0.750", "7.000", *["0.500"] * 4, "0.125"] in rows
    assert ["all", "views", "14", *["0.500"] * 5] in rows
    assert ["BSV", *["0.500"] * 5] in rows
    assert lines[-1].startswith("BSV, Concat-AE: pre-training alone")


def test_a_long_name_is_folded_and_no_number_is_cut() -> None:
    name = "expression_of_the_liver_after_two_weeks"
    stated = facts(data={"views": {name: 4, "b": 10}}, scores={"clusters": SCORES})
    lines = shown(stated)
    assert max(map(len, lines)) <= 80
    assert name[-5:] in "".join(lines)
    assert not any("…" in line for line in lines)


def test_a_method_that_judges_no_views() -> None:
    stated = facts(best_view=None, view_quality=None, pair_weights=None)
    rows = [line.split() for line in shown(stated)]
    assert ["a", "4"] in rows
    assert ["b", "10"] in rows
    assert weight_with_best(stated, "a") is None


def test_sizes_in_words() -> None:
    assert sizes_line([3, 0, 12]) == "sizes of the clusters: 3, 0, 12"


def test_few_letters_are_put_up_with(monkeypatch: pytest.MonkeyPatch) -> None:
    poor = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", poor)
    put_up_with_few_letters()
    print_json({"view": "ä"})
    poor.write("Ĥ\n")
    poor.flush()
    assert poor.buffer.getvalue() == b'{"view": "\\u00e4"}\n?\n'  # type: ignore[attr-defined]


class _Full(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_remark_on_a_full_disk_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in ("sys.stderr", "sys.stdout"):
        monkeypatch.setattr(stream, _Full())
    messages().print("epoch 7")
    with pytest.raises(OSError, match="No space left"):
        output().print("a result")  # which must not be lost in silence
