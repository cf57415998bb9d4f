"""The items: every one can be made, a wrong one is refused, and none of the paper's is missing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import pytest
from pydantic import ValidationError

from dwcl import DWCL, recipe
from dwcl.data.catalogue import find
from dwcl.data.synthetic import make_multiview
from dwcl.errors import SettingError
from dwcl.experiments.paper.items import (
    Axis,
    Item,
    Quick,
    Variant,
    check_item,
    item,
    item_file,
    items,
    recipe_of,
    settings_of,
)
from dwcl.experiments.paper.numbers import table, tables

WITHOUT_RESULTS = {"motivation", "fig:DWCL", "tab:descriptor"}
"""Two drawings of the idea, and a table of words."""


@pytest.mark.parametrize("name", items())
def test_every_item_can_be_made(name: str) -> None:
    found = item(name)
    assert found.name == name
    check_item(found)


@pytest.mark.parametrize("found", [i for i in items().values() if i.numbers and i.variants])
def test_an_item_shows_what_its_table_shows(found: Item) -> None:
    printed = table(str(found.numbers))
    assert [v.name for v in found.variants if not v.extra] == [
        row for row in printed.rows if row in {v.name for v in found.variants}
    ]
    left_out = set(printed.rows) - {variant.name for variant in found.variants}
    assert not left_out
    assert set(found.paper_data) == set(printed.datasets)
    if found.task != "differences":
        assert found.label == printed.label
        assert found.metrics == printed.metrics
    for number in printed.numbers:
        assert found.variant(str(number.row)).method == number.method


def test_every_table_of_numbers_is_an_item() -> None:
    assert set(tables()) <= set(items())


def test_every_table_and_figure_of_the_paper_is_an_item(paper_source: str) -> None:
    floats = re.findall(r"\\begin\{(table|figure)\*?\}(.*?)\\end\{\1\*?\}", paper_source, re.DOTALL)
    assert len(floats) == 20
    by_label = {found.label: found for found in items().values()}
    labels = set()
    for kind, body in floats:
        *parts, label = re.findall(r"\\label\{([^}]*)\}", body)
        labels.add(label)
        if label not in WITHOUT_RESULTS:
            found = by_label[label]
            assert (found.kind, list(found.parts)) == (kind, parts)
    assert labels - set(by_label) == WITHOUT_RESULTS
    assert set(by_label) <= labels
    assert len(by_label) == len(items())


def broken(**changes: Any) -> Item:
    """Make an item that is right but for the changes."""
    fields: dict[str, Any] = {
        "name": "x",
        "kind": "table",
        "task": "scores",
        "label": "tab:x",
        "title": "X",
        "paper_data": ("dha",),
        "data": ("digits",),
        "metrics": ("acc",),
        "seeds": (0,),
        "variants": (Variant(name="dwcl", settings={"epochs": 3}),),
        "quick": Quick(data=("digits",)),
    }
    return Item.model_validate(fields | changes)


def test_the_item_that_is_not_broken_passes() -> None:
    check_item(broken(numbers="comparison"))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"variants": [{"name": "dwlc"}]}, "There is no method 'dwlc'. Did you mean 'dwcl'?"),
        (
            {"variants": [{"name": "dwcl", "settings": {"epoch": 3}}]},
            "DWCL has no setting 'epoch'. Did you mean 'epochs'?",
        ),
        (
            {"variants": [{"name": "dwcl", "quick": {"epoch": 3}}]},
            "DWCL has no setting 'epoch'. Did you mean 'epochs'?",
        ),
        ({"variants": [{"name": "dwcl", "settings": {"mechanism": "all"}}]}, "mechanism is 'all'"),
        ({"variants": [{"name": "kmeans"}]}, "'kmeans' has no settings for quick mode."),
        ({"paper_data": ["dah"]}, "There is no data set 'dah' in the catalogue."),
        ({"data": ["digitz"]}, "There is no data set 'digitz' in the catalogue."),
        ({"shapes": ["nus"]}, "There is no data set 'nus' in the catalogue."),
        ({"data": ["Scene_15"]}, "The catalogue calls the data set 'Scene_15' 'scene15'."),
        ({"quick": {"data": ["digitz"]}}, "There is no data set 'digitz' in the catalogue."),
        ({"quick": {"shapes": ["nus"]}}, "There is no data set 'nus' in the catalogue."),
        (
            {"axes": [Axis(parameter="lambda", values=(1.0,), quick=(1.0,))]},
            "DWCL has no setting 'lambda'.",
        ),
        (
            {"axes": [Axis(parameter="temperature", values=(1.0, -1.0), quick=(1.0,))]},
            "temperature is -1.0",
        ),
        ({"numbers": "comparisons"}, "The paper has no table 'comparisons'."),
        ({"numbers": "comparison", "metrics": ["ari"]}, "has no metric 'ari'."),
        ({"numbers": "comparison", "paper_data": ["hw"]}, "has no data set 'hw'."),
        (
            {"numbers": "mechanisms"},
            "The paper's table 'mechanisms' has no row 'dwcl'.",
        ),
    ],
)
def test_a_broken_item_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(SettingError, match=re.escape(reason)):
        check_item(broken(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"task": "score"},
        {"task": "grid"},
        {"task": "probe"},
        {"task": "facts"},
        {"task": "time"},
        {"task": "views"},
        {"task": "differences", "reference": "bsv"},
        {"seeds": ()},
        {"data": ()},
        {"variants": ()},
        {"variants": [{"name": "dwcl"}, {"name": "dwcl"}]},
        {"variants": [{"name": "DWCL"}]},
        {"variants": [{"name": "dwcl", "setting": {}}]},
        {"datasets": ["digits"]},
    ],
)
def test_an_incomplete_item_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        broken(**changes)


def test_unknown_names_are_answered() -> None:
    with pytest.raises(SettingError) as failure:
        item("scater")
    assert str(failure.value) == "The paper has no item 'scater'. Did you mean 'scatter'?"
    with pytest.raises(SettingError) as failure:
        item("mechanisms").variant("best-others")
    assert str(failure.value) == (
        "The item 'mechanisms' has no variant 'best-others'. Did you mean 'best-other'?"
    )


@pytest.mark.parametrize(
    ("method", "dataset"),
    [(method, dataset) for method, named in item_file().recipes.items() for dataset in named],
)
def test_a_recipe_fits_its_data_set(method: str, dataset: str) -> None:
    name, entry = recipe_of(method, dataset), find(dataset)
    assert name is not None
    assert entry.name == dataset
    found = recipe(name, method)
    assert found.n_clusters in (None, entry.classes)
    assert found.widths is None or sorted(found.widths) == sorted(entry.widths or ())


def test_what_is_nearer_to_the_variant_wins() -> None:
    variant = Variant(
        name="x", method="dwcl", settings={"epochs": 7, "iterations": 5}, quick={"epochs": 1}
    )
    assert settings_of(variant, "nuswide") == {"epochs": 7, "iterations": 5}
    assert settings_of(variant, "nuswide", recipes=True) == {
        "latent": 512,
        "embedding": 96,
        "pretrain_epochs": 100,
        "iterations": 5,
        "epochs": 7,
    }
    quick = settings_of(variant, "nuswide", recipes=True, quick=True)
    assert (quick["pretrain_epochs"], quick["iterations"], quick["epochs"]) == (2, 5, 1)
    assert quick["embedding"] == 16  # over the recipe
    assert settings_of(variant, "msrc-v1", recipes=True) == {"epochs": 7, "iterations": 5}


def test_the_quick_mode_is_quick() -> None:
    for found in items().values():
        for variant in found.variants:
            settings = settings_of(variant, "digits", recipes=True, quick=True)
            epochs = [value for name, value in settings.items() if name.endswith("epochs")]
            assert epochs
            assert max(epochs) <= 2
            assert settings.get("iterations", 0) <= 6


def test_a_method_is_fitted_alike_wherever_the_paper_compares_methods() -> None:
    """Items that share runs must ask for the same ones."""
    for name in ("scatter", "classification", "maps-methods"):
        for variant in item(name).variants:
            assert variant == item("comparison").variant(variant.name)
    assert item("scatter").seeds == item("classification").seeds == item("comparison").seeds


def test_the_grid_has_a_fit_for_each_pair_of_values() -> None:
    points = item("grid-nuswide").combinations()
    values = (0.01, 0.1, 1.0, 10.0, 100.0)
    assert points == [
        {"reconstruction_weight": a, "contrast_weight": b} for a in values for b in values
    ]
    assert len(item("grid-nuswide").combinations(quick=True)) == 4
    assert item("comparison").combinations() == [{}]


FACTORS: dict[str, Callable[[float, float], float]] = {
    "none": lambda quality, agreement: 1.0,
    "discrepancy": lambda quality, agreement: math.exp(agreement) - 1,
    "quality": lambda quality, agreement: math.exp(quality),
    "dual": lambda quality, agreement: math.exp(quality) * (math.exp(agreement) - 1),
}
"""The weights as the paper writes them, of the sum of two qualities and of the CMI."""


@pytest.mark.parametrize("variant", item("weight-ablation").variants, ids=lambda v: v.name)
def test_the_ablation_sets_the_weights_that_it_names(
    variant: Variant, small: dict[str, Any]
) -> None:
    mechanism, _, factors = variant.name.rpartition("-")
    for seed in range(2):
        data = make_multiview(45, 3, random_state=seed)
        model = DWCL(3, random_state=seed, **(small | {"epochs": 1} | variant.settings)).fit(data)
        last = model.assessments_[-1]
        best, views = last.best, range(3)
        expected: dict[tuple[int, int], float] = {}
        with_best = [(v, best) for v in views]
        for v, w in with_best if mechanism == "best-other" else product(views, views):
            weight = FACTORS[factors](last.quality[v] + last.quality[w], last.agreement[v][w])
            key = (min(v, w), max(v, w))
            expected[key] = expected.get(key, 0.0) + weight
        found = {
            tuple(sorted(last.names.index(name) for name in pair["views"])): pair["weight"]
            for pair in model.pair_weights_
        }
        assert found == pytest.approx(expected)


def test_moments_of_one_fit_are_fits_of_their_own(small: dict[str, Any]) -> None:
    """The maps over the epochs are made of four fits: each goes on where the one before ends."""
    variants = item("maps-epochs").variants
    assert [v.settings["iterations"] * v.settings["epochs"] for v in variants] == [0, 100, 200, 300]
    data = make_multiview(45, 3, random_state=0)
    histories = []
    for variant in variants:
        settings = small | variant.settings | variant.quick
        model = DWCL(3, random_state=0, **settings).fit(data)
        losses = [r["loss"] for r in model.history_ if r["event"] == "epoch"]
        histories.append(losses)
    for shorter, longer in pairwise(histories):
        assert len(longer) == len(shorter) + 2
        assert longer[: len(shorter)] == shorter
