"""The numbers are those that the paper prints: all of them, and no others."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
from pydantic import ValidationError

from dwcl import DWCL, recipe
from dwcl.data.catalogue import find
from dwcl.errors import SettingError
from dwcl.experiments.paper.items import recipe_of
from dwcl.experiments.paper.numbers import (
    METHOD_NAMES,
    PaperNumber,
    PaperTable,
    dataset_names,
    read_table,
    table,
    tables,
)
from dwcl.methods.registry import methods

Place: TypeAlias = tuple[str, str | None, str, int | None]
"""Data set, row, metric, view."""
Printed: TypeAlias = tuple[float, float | None, str | None]
"""Value, standard deviation, arrow."""

DATASETS = {paper: name for name, paper in dataset_names().items()}
METHODS = {paper: name for name, paper in METHOD_NAMES.items()}
METRICS = {"ACC": "acc", "NMI": "nmi", "Recall": "recall", "F1-Score": "f1"}
WEIGHTS = {"w/o W": "none", "w/ CMI": "discrepancy", "w/ SIL": "quality", "w/ CMI+SIL": "dual"}
ARROWS = {"↑": "up", "↓": "down"}

# Added up from the source as well, by another way than the tests below read it.
COUNTS_AND_SUMS = {
    "classification": {"acc": (20, 1413.0), "f1": (20, 1380.5), "recall": (20, 1415.7)},
    "comparison": {"acc": (84, 5200.2), "nmi": (84, 4904.7)},
    "datasets": {"classes": (8, 97), "samples": (8, 85154), "views": (8, 37)},
    "mechanisms": {"acc": (16, 1106.4), "nmi": (16, 1025.9)},
    "network": {"embedding": (8, 1376), "latent": (8, 4096), "width": (37, 46936)},
    "reconstruction": {"acc": (16, 1111.4), "nmi": (16, 1026.6)},
    "time": {"time": (23, 3811.5)},
    "training": {"epochs": (8, 355), "iterations": (8, 29), "pretrain_epochs": (8, 750)},
    "views": {"acc": (40, 2648.2), "improvement": (30, 1517.0), "silhouette": (10, 16.0)},
    "weight-ablation": {"acc": (64, 4330.7), "nmi": (64, 4060.7)},
}
SUM_OF_DEVIATIONS = 360.8  # only the comparison has any
DIGESTS = {
    "classification": "7e1895e7e67c1181",
    "comparison": "8584ac595083f2a3",
    "datasets": "28afe87940a6453c",
    "mechanisms": "c2a3a474db2625ce",
    "network": "d8fb034e050297ed",
    "reconstruction": "45bc3e2e88d504a3",
    "time": "1300168900252e08",
    "training": "356aa9ddb9ae8f72",
    "views": "80d6d18cf21ba3b9",
    "weight-ablation": "7753a14064e637a5",
}


def printed(found: PaperTable) -> dict[Place, Printed]:
    """Lay the numbers of a file out by their places; no place twice."""
    laid = {(n.dataset, n.row, n.metric, n.view): (n.value, n.std, n.arrow) for n in found.numbers}
    assert len(laid) == len(found.numbers)
    return laid


# -- the source ------------------------------------------------------------------------------------


def rows_of(source: str, label: str) -> Iterator[list[str]]:
    """Yield the rows of a table as plain cells, one for each column."""
    end = source.index(f"\\label{{{label}}}")
    body = source[source.rindex("\\begin{tabular}", 0, end) : end]
    body = re.sub(r"\\begin\{tabular\}\{[^}]*\}|\\end\{tabular\}|\\[hc]line(\{[\d-]+\})?", "", body)
    for line in body.split("\\\\"):
        cells: list[str] = []
        for cell in line.split("&"):
            spans = re.search(r"\\multicolumn\{(\d+)\}\{[^}]*\}", cell)
            cells += [plain(cell)] * (int(spans[1]) if spans else 1)
        if any(cells):
            yield cells


def plain(cell: str) -> str:
    """Strip a cell of its commands."""
    signs = {"\\uparrow": "↑", "\\downarrow": "↓", "\\pm": "±", "\\times": "×"}
    for command, sign in signs.items():
        cell = cell.replace(command, sign)
    cell = re.sub(r"\\(multicolumn|multirow)\{[^}]*\}\{[^}]*\}", "", cell)
    cell = re.sub(r"~?\\cite\{[^}]*\}|\\textcolor\{[^}]*\}|\\text(bf|it)", "", cell)
    cell = re.sub(r"\\mathcal|[{}$()]", "", cell)
    return " ".join(cell.split())


def as_number(cell: str) -> Printed | None:
    """Read a cell: a number, with a deviation or an arrow where there is one; None for a dash."""
    if cell == "-":
        return None
    found = re.fullmatch(r"([\d.]+)(?:±([\d.]+))?([↑↓])?", cell.replace(" ", ""))
    assert found, cell
    value, std, arrow = found.groups()
    return float(value), float(std) if std else None, ARROWS[arrow] if arrow else None


def cells_of(source: str, label: str) -> Iterator[tuple[list[str], str, str, Printed | None]]:
    """Yield the cells of a table whose columns go by data set: row, data set, column, number."""
    heads: list[str] = []
    columns: list[str] = []
    group = ""
    for cells in rows_of(source, label):
        if any(cell in DATASETS for cell in cells):
            heads, columns = cells, []
            first = next(i for i, cell in enumerate(cells) if cell in DATASETS)
        elif not columns and not re.search(r"\d\.\d", "".join(cells)):
            columns = cells
        else:
            group = cells[0] or group
            for i in range(first, len(cells)):
                column = columns[i] if columns else ""
                yield [group, *cells[1:first]], heads[i], column, as_number(cells[i])


def by_dataset(source: str, label: str, *metrics: str) -> dict[Place, Printed | None]:
    """Read a table with one row for each data set."""
    found: dict[Place, Printed | None] = {}
    row = None if label == "tab:datasets" else "dwcl"
    for cells in rows_of(source, label):
        if cells[0] in DATASETS:
            for metric, cell in zip(metrics, cells[1:], strict=True):
                listed = cell.strip("[]").split(", ") if metric == "width" else [cell]
                for i, number in enumerate(listed, 1):
                    place = (DATASETS[cells[0]], row, metric, i if metric == "width" else None)
                    found[place] = (float(number.replace(",", "")), None, None)
    return found


def in_views(row: list[str], column: str) -> tuple[str, str, int]:
    view = int(column.removeprefix("View "))
    for start, metric in (("Silhouette", "silhouette"), ("Initialization", "acc")):
        if row[0].startswith(start):
            return "pre-trained", metric, view
    metric = {"Fine-tuning ACC": "acc", "Relative Improvement \\%": "improvement"}[row[1]]
    return METHODS[row[0].removesuffix(" Ours")], metric, view


def in_ablation(row: list[str], column: str) -> tuple[str, str, None]:
    mechanism = {"Pairwise": "pairwise", "B-O Ours": "best-other"}[row[0]]
    return f"{mechanism}-{WEIGHTS[row[1].replace('W_', '')]}", METRICS[column], None


def in_rows(names: dict[str, str]) -> Callable[[list[str], str], tuple[str, str, None]]:
    def where(row: list[str], column: str) -> tuple[str, str, None]:
        return names[row[0].removesuffix(" Ours")], METRICS[column] if column else "time", None

    return where


BY_COLUMNS: dict[str, Callable[[list[str], str], tuple[str, str, int | None]]] = {
    "comparison": in_rows(METHODS),
    "classification": in_rows(METHODS),
    "time": in_rows(METHODS),
    "mechanisms": in_rows({"Pairwise": "pairwise", "B-O": "best-other"}),
    "reconstruction": in_rows({"DWCL w/ R": "with", "DWCL w/o R": "without"}),
    "weight-ablation": in_ablation,
    "views": in_views,
}
BY_ROWS = {
    "datasets": ("samples", "views", "classes"),
    "network": ("width", "latent", "embedding"),
    "training": ("pretrain_epochs", "iterations", "epochs"),
}


@pytest.mark.parametrize("name", sorted({*BY_COLUMNS, *BY_ROWS}))
def test_a_table_is_that_of_the_source(paper_source: str, name: str) -> None:
    ours = table(name)
    theirs: dict[Place, Printed | None] = {}
    if name in BY_ROWS:
        theirs = by_dataset(paper_source, ours.label, *BY_ROWS[name])
    else:
        for row, head, column, number in cells_of(paper_source, ours.label):
            row_name, metric, view = BY_COLUMNS[name](row, column)
            place = (DATASETS[head], row_name, metric, view)
            assert place not in theirs
            theirs[place] = number
    numbers = {place: number for place, number in theirs.items() if number is not None}
    assert printed(ours) == numbers
    blanks = {(cell.dataset, cell.row, cell.metric, cell.view) for cell in ours.blanks}
    assert blanks == set(theirs) - set(numbers)


def test_what_all_data_sets_share_is_the_default(paper_source: str) -> None:
    text = " ".join(paper_source.split())
    stated = re.search(
        r"\$\\gamma\$ and \$\\lambda\$ are set to ([\d.]+), .{0,60}a learning rate of ([\d.]+), "
        r"and a batch size of (\d+)",
        text,
    )
    assert stated
    model = DWCL()
    assert model.contrast_weight == model.reconstruction_weight == float(stated[1])
    assert model.learning_rate == float(stated[2])
    assert model.batch_size == int(stated[3])


# -- wherever the tests run ------------------------------------------------------------------------


def test_counts_and_sums_are_the_paper_s() -> None:
    found = {
        name: {
            metric: (
                sum(number.metric == metric for number in found.numbers),
                round(sum(n.value for n in found.numbers if n.metric == metric), 1),
            )
            for metric in sorted(found.metrics)
        }
        for name, found in tables().items()
    }
    assert found == COUNTS_AND_SUMS
    deviations = [n.std for found in tables().values() for n in found.numbers if n.std is not None]
    assert (len(deviations), round(sum(deviations), 1)) == (168, SUM_OF_DEVIATIONS)
    assert {name: len(found.blanks) for name, found in tables().items() if found.blanks} == {
        "comparison": 8,
        "time": 1,
    }


def test_no_number_has_changed_or_moved() -> None:
    """Sums let two changes pass that make up for each other; digests do not."""
    assert {name: digest(found) for name, found in tables().items()} == DIGESTS


def digest(found: PaperTable) -> str:
    laid = sorted(map(repr, printed(found).items()))
    return hashlib.sha256("\n".join(laid).encode()).hexdigest()[:16]


def test_names_are_those_of_the_catalogue_and_of_the_methods() -> None:
    assert len(DATASETS) == 8
    assert set(METHOD_NAMES) <= set(methods())
    assert len(METHODS) == len(METHOD_NAMES)
    for found in tables().values():
        for cell in (*found.numbers, *found.blanks):
            assert find(cell.dataset).name == cell.dataset
            assert cell.dataset in dataset_names()
            assert cell.method is None or cell.method in METHOD_NAMES


def test_units_fit_the_metrics() -> None:
    units = {(n.metric, n.unit) for found in tables().values() for n in found.numbers}
    assert len(units) == len({metric for metric, _ in units})
    for found in tables().values():
        for number in found.numbers:
            if number.unit == "percent" and number.metric != "improvement":
                assert 0 < number.amount < 1
            assert (number.arrow is None) == (number.metric != "improvement")


def test_the_catalogue_has_the_paper_s_shapes() -> None:
    facts = table("datasets")
    for dataset in dataset_names():
        entry = find(dataset)
        amounts = [facts.number(dataset, None, metric) for metric in facts.metrics]
        assert [found and found.amount for found in amounts] == [
            entry.n,
            len(entry.widths or ()),
            entry.classes,
        ]
        assert widths_of(dataset) == entry.widths


def test_the_recipes_are_the_paper_s() -> None:
    for dataset in dataset_names():
        name = recipe_of("dwcl", dataset)
        assert name is not None
        expected: dict[str, Any] = {}
        for number in (*table("network").numbers, *table("training").numbers):
            if number.dataset == dataset and number.metric != "width":
                expected[number.metric] = number.amount
        assert recipe(name).settings == expected
        assert recipe(name).widths == widths_of(dataset)
        classes = table("datasets").number(dataset, None, "classes")
        assert classes is not None
        assert recipe(name).n_clusters == classes.amount


def widths_of(dataset: str) -> tuple[float, ...]:
    of_dataset = (n for n in table("network").numbers if n.dataset == dataset)
    return tuple(number.amount for number in of_dataset if number.metric == "width")


def test_a_number_is_found_by_its_place() -> None:
    comparison = table("comparison")
    found = comparison.number("dha", "dealmvc", "nmi")
    assert found is not None
    assert (found.value, found.std, str(found)) == (69.6, 7.5, "69.6 ± 7.5")
    assert (found.amount, found.spread) == (pytest.approx(0.696), pytest.approx(0.075))
    assert comparison.number("cifar10", "cvcl", "acc") is None  # a dash
    loss = table("views").number("caltech5v7", "cvcl", "improvement", view=3)
    assert loss is not None
    assert (str(loss), loss.amount) == ("14.6 ↓", pytest.approx(-0.146))
    silhouette = table("views").number("nuswide", "pre-trained", "silhouette", view=5)
    assert silhouette is not None
    assert silhouette.amount == pytest.approx(0.17)
    samples = table("datasets").number("cifar10", None, "samples")
    assert str(samples) == "60,000"


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (("scene", "dwcl", "acc"), "has no data set 'scene'. Did you mean 'scene15'?"),
        (("scene15", "dualmvc", "acc"), "has no row 'dualmvc'. Did you mean 'dealmvc'?"),
        (("scene15", "dwcl", "ari"), "has no metric 'ari'. Known: acc, nmi."),
    ],
)
def test_an_unknown_place_is_answered(place: tuple[str, str, str], reason: str) -> None:
    with pytest.raises(SettingError) as failure:
        table("comparison").number(*place)
    assert str(failure.value) == f"The paper's table 'comparison' {reason}"


def test_an_unknown_table_is_answered() -> None:
    with pytest.raises(SettingError, match="no table 'comparisons'"):
        table("comparisons")


FILE = """
label = "tab:x"
title = "X"
units = {{ acc = "percent" }}
numbers = [{{ dataset = "dha", method = "dwcl", {} }}]
"""


def test_a_file_is_read_strictly() -> None:
    read = read_table("x", FILE.format('metric = "acc", value = 50.0'))
    assert read.numbers[0] == PaperNumber(
        table="x", dataset="dha", method="dwcl", metric="acc", value=50.0, unit="percent"
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        read.numbers[0].value = 1.0  # type: ignore[misc]
    for wrong in ('metric = "acc"', 'metric = "acc", value = 1.0, vlaue = 2.0', 'metric = "nmi"'):
        with pytest.raises(ValidationError):
            read_table("x", FILE.format(wrong))
