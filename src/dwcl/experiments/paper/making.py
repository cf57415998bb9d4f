"""From an item of the paper to the runs that make it anew, with the data that are here."""

from __future__ import annotations

from collections.abc import Sequence

from dwcl.data.catalogue import find
from dwcl.data.fetch import status
from dwcl.errors import DataError
from dwcl.experiments.paper.items import Item, Task, Variant, recipe_of, settings_of
from dwcl.experiments.spec import SHAPE, DataChoice, Extra, Trial
from dwcl.methods.registry import get_method
from dwcl.methods.settings import check_settings

EXTRAS: dict[Task, tuple[Extra, ...]] = {
    "views": ("views",),
    "probe": ("probe",),
    "maps": ("map",),
}
_HERE = {"here", "embedded"}


def experiment_of(item: Item, *, quick: bool = False, recipes: bool = False) -> str:
    """Name the experiment of an item in a store; quick runs and recipes are others."""
    marks = [mark for mark, on in (("quick", quick), ("recipes", recipes)) if on]
    return f"paper: {item.name}" + (f" ({', '.join(marks)})" if marks else "")


def chosen_data(item: Item, *, quick: bool = False, asked: Sequence[str] = ()) -> list[str]:
    """List the data sets of an item: those asked for, else the paper's and those in their place."""
    if asked:
        return [find(name).name for name in asked]
    if quick:
        return list(item.quick.shapes if item.task == "time" else item.quick.data)
    if item.task == "time":
        return list(item.shapes)
    return list(dict.fromkeys((*item.paper_data, *item.data)))


def missing(names: Sequence[str]) -> dict[str, str]:
    """Say of each data set that is not here what it takes to have it."""
    return {name: how_to_get(name) for name in names if status(name) not in _HERE}


def how_to_get(name: str) -> str:
    """Say what it takes to have a data set."""
    entry = find(name)
    state = status(entry)
    if state == "to be built":
        return f"not built yet: dwcl data build {name}"
    if state == "not fetched":
        return f"not fetched yet: dwcl data fetch {name}"
    if state == "to be extracted":
        return f"the archive is here; extract it, and then: dwcl data import {name} FILE"
    return f"its authors share it themselves ({entry.shape}): dwcl data import {name} FILE"


def trials_of(
    item: Item,
    *,
    quick: bool = False,
    recipes: bool = False,
    asked: Sequence[str] = (),
    seeds: Sequence[int] = (),
) -> list[Trial]:
    """List the runs of an item on those of its data sets that are here.

    Parameters
    ----------
    item : Item
        A table or figure; one of facts alone has no runs.
    quick : bool
        Whether to see only that everything runs.
    recipes : bool
        Whether to begin with the published settings of a data set, where there are some.
    asked : sequence of str
        Data sets to take instead of the item's.
    seeds : sequence of int
        Seeds to take instead of the item's.
    """
    if item.task == "facts":
        return []
    names = chosen_data(item, quick=quick, asked=asked)
    if item.task == "time":
        sources = [DataChoice(source=f"{SHAPE}{name}", name=name) for name in names]
    else:
        absent = missing(names)
        if len(absent) == len(names):
            lines = "; ".join(f"{name}: {how}" for name, how in absent.items())
            raise DataError(f"None of the data of '{item.name}' are here. {lines}.")
        sources = [
            DataChoice(source=find(name).source, name=name) for name in names if name not in absent
        ]
    chosen = seeds or (item.quick.seeds if quick else item.seeds)
    return [
        _trial(item, variant, point, data, seed, quick=quick, recipes=recipes)
        for data in sources
        for variant in item.variants
        for point in item.combinations(quick=quick)
        for seed in chosen
    ]


def label_of(variant: Variant, point: dict[str, float]) -> str:
    """Name a variant at a point of the grid."""
    return ", ".join([variant.name, *(f"{name}={value:g}" for name, value in point.items())])


def _trial(
    item: Item,
    variant: Variant,
    point: dict[str, float],
    data: DataChoice,
    seed: int,
    *,
    quick: bool,
    recipes: bool,
) -> Trial:
    settings = settings_of(variant, data.name, recipes=recipes, quick=quick) | point
    return Trial(
        column=label_of(variant, point),
        data=data,
        method=variant.method,
        recipe=recipe_of(variant.method, data.name) if recipes else None,
        settings=check_settings(get_method(variant.method), settings),
        seed=seed,
        extras=EXTRAS.get(item.task, ()),
    )
