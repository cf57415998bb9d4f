"""The paper's numbers beside ours: differences and verdicts by hand."""

from __future__ import annotations

from typing import Any

import pytest

from dwcl.experiments.paper.items import item
from dwcl.experiments.paper.numbers import PaperNumber, table
from dwcl.experiments.paper.verdicts import Line, improvements, lines_of, ratios, words
from dwcl.experiments.store import Row


def number(value: float, metric: str = "acc", unit: str = "percent") -> PaperNumber:
    return PaperNumber(
        table="t",
        dataset="scene15",
        metric=metric,
        method="dwcl",
        value=value,
        unit=unit,  # type: ignore[arg-type]
    )


def row(label: str, facts: dict[str, Any], *, data: str = "scene15", seed: int = 0) -> Row:
    return Row("t", data, label, seed, f"{label}{seed}{data}", "done", facts, "")


def scores(acc: float, nmi: float = 0.5) -> dict[str, Any]:
    return {"scores": {"clusters": {"acc": acc, "nmi": nmi}}}


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((0.40, 0.46), "within one std"),  # mean 43, deviation 4.2; the paper has 43.5
        ((0.42, 0.4201), "within 2 points"),
        ((0.42,), "within 2 points"),
        ((0.40,), "not reproduced"),
        ((0.30, 0.301), "not reproduced"),
        ((0.46,), "not reproduced"),
        ((), ""),
    ],
)
def test_verdicts(values: tuple[float, ...], verdict: str) -> None:
    line = Line("scene15", "dwcl", "acc", number(43.5), values, "no run yet")
    assert line.verdict == verdict
    if not values:
        assert words(line) == ("43.5", "–", "", "no run yet")


def test_a_line_in_words() -> None:
    line = Line("scene15", "dwcl", "acc", number(43.5), (0.40, 0.46))
    assert words(line) == ("43.5", "43.0 ± 4.2 (2)", "-0.5", "within one std")
    alone = Line("digits", "dwcl", "acc", None, (0.5,))
    assert words(alone) == ("–", "50.0 (1)", "", "")
    tenths = Line("scene15", "dwcl", "silhouette", number(2.2, "silhouette", "tenths"), (0.21,))
    assert words(tenths)[:3] == ("2.2", "2.1 (1)", "-0.1")
    seconds = Line("scene15", "dwcl", "time", number(83.3, "time", "seconds"), (10.0,))
    assert (seconds.difference, seconds.verdict) == (None, "")


def test_every_number_of_the_paper_has_its_line() -> None:
    wanted = item("comparison")
    rows = [row("dwcl", scores(0.435, 0.4), seed=s) for s in range(2)]
    rows.append(row("dwcl", scores(0.9), data="digits"))
    lines = lines_of(wanted, rows)
    printed = [line for line in lines if line.paper is not None]
    assert len(printed) == len(table("comparison").numbers)
    mine = [line for line in printed if line.values]
    assert {(line.data, line.row, line.metric) for line in mine} == {
        ("scene15", "dwcl", "acc"),
        ("scene15", "dwcl", "nmi"),
    }
    assert {line.remark for line in printed if not line.values} <= {
        "no run yet",
        "data are not here",
    }
    rest = [line for line in lines if line.paper is None]
    assert {(line.data, line.metric) for line in rest} == {("digits", "acc"), ("digits", "nmi")}


def test_failed_runs_have_a_line() -> None:
    failed = Row("t", "digits", "dwcl", 3, "k", "failed", {}, "TrainingError: boom")
    (line,) = [x for x in lines_of(item("comparison"), [failed]) if x.data == "digits"]
    assert line.remark == "seed 3 failed: TrainingError: boom"


def test_improvements_are_relative_to_the_pre_trained_views() -> None:
    wanted = item("views")
    rows = [
        row(
            label,
            {
                "views": {"a": {"acc": first}, "b": {"acc": second}},
                "view_quality": {"a": 0.2, "b": 0.3},
            },
            data="digits",
            seed=seed,
        )
        for seed, shift in ((0, -0.1), (1, 0.1))
        for label, first, second in (
            ("pre-trained", 0.5 + shift, 0.8),
            ("sem", 0.6 + shift, 0.4),
        )
    ]
    lines = improvements(wanted, lines_of(wanted, rows))
    found = {(line.row, line.metric): line.mean for line in lines if line.data == "digits"}
    assert found["sem, view 1", "improvement"] == pytest.approx(0.2)
    assert found["sem, view 2", "improvement"] == pytest.approx(-0.5)
    assert found["pre-trained, view 2", "silhouette"] == pytest.approx(0.3)
    assert ("sem, view 1", "silhouette") not in found
    assert ("pre-trained, view 1", "improvement") not in found


def test_times_are_those_of_contrast_and_compared_as_ratios() -> None:
    wanted = item("time")
    rows = [
        row(label, {"seconds": {"pretrain": 99.0, "contrast-1": seconds}}, data="dha")
        for label, seconds in (("sem", 6.0), ("dwcl", 2.0))
    ]
    lines = lines_of(wanted, rows)
    times = {line.row: line.mean for line in lines if line.data == "dha"}
    assert times == {"sem": 6.0, "dcmvc": None, "dwcl": 2.0}
    by_row = {line.row: line for line in ratios(lines, "dwcl") if line.data == "dha"}
    assert by_row["sem"].mean == 3.0
    assert by_row["sem"].remark == "the paper: 1.30"  # 10.4 s over 8.0 s
    assert by_row["dcmvc"].mean is None


@pytest.mark.parametrize("name", ["datasets", "network", "training"])
def test_what_the_paper_states_is_what_the_catalogue_and_the_recipes_have(name: str) -> None:
    lines = lines_of(item(name), [])
    assert lines
    assert {line.verdict for line in lines} == {"as stated"}


def test_a_probe_s_means_are_read() -> None:
    facts = {"probe": {"acc_mean": 0.75, "acc_std": 0.1, "recall_mean": 0.5, "f1_mean": 0.25}}
    lines = lines_of(item("classification"), [row("dwcl", facts, data="digits")])
    assert {line.metric: line.mean for line in lines if line.data == "digits"} == {
        "acc": 0.75,
        "recall": 0.5,
        "f1": 0.25,
    }
