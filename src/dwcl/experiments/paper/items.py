"""The tables and figures of the paper as items: what each is made of, as data.

The items are a data file, ``items.toml``, beside this module; whoever makes them anew reads it by
:func:`item` and asks :meth:`Item.combinations` and :func:`settings_of` for the fits.
"""

from __future__ import annotations

import functools
import itertools
import tomllib
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dwcl.data.catalogue import find
from dwcl.errors import SettingError, nearest
from dwcl.experiments.paper.numbers import table
from dwcl.experiments.recipes import recipe

Task = Literal[
    "scores", "differences", "views", "time", "probe", "trace", "losses", "grid", "maps", "facts"
]
_NAME = r"^[a-z0-9]+(-[a-z0-9]+)*$"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Variant(_Record):
    """A method under settings of its own: a row of a table, a line of a figure.

    Attributes
    ----------
    name : str
        The row of the paper's table; also the method, if none is stated.
    method : str
        Name of the registry.
    settings : dict
        On top of the method's defaults and its recipe.
    quick : dict
        On top of those in quick mode.
    extra : bool
        Whether the paper does not show it.
    """

    name: str = Field(pattern=_NAME)
    method: str = ""
    settings: dict[str, Any] = {}
    quick: dict[str, Any] = {}
    extra: bool = False

    @model_validator(mode="before")
    @classmethod
    def _is_its_method(cls, given: Any) -> Any:
        return {"method": given.get("name"), **given} if isinstance(given, dict) else given


class Axis(_Record):
    """A parameter that takes several values, all of them or fewer in quick mode."""

    parameter: str
    values: tuple[float, ...] = Field(min_length=1)
    quick: tuple[float, ...] = Field(min_length=1)


class Probe(_Record):
    """How the linear probe splits the samples."""

    train_fraction: float
    repeats: int


class Quick(_Record):
    """What stands in for an item's own data and seeds in quick mode."""

    data: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0,)


class Item(_Record):
    """A table or figure of the paper.

    Attributes
    ----------
    name, kind, label, title : str
        Its short name; ``table`` or ``figure``; its label in the paper's source; what it shows.
    task : str
        What is done: ``scores`` of the clusters; ``differences`` of them from the reference;
        ``views``, scores of each; ``time``; a linear ``probe``; ``trace``, weights and scores over
        the iterations; ``losses`` over the epochs; scores on a ``grid``; ``maps`` of the features;
        ``facts`` about data and settings, without a fit.
    numbers : str or None
        The paper's table with its numbers, if they are printed.
    parts : tuple of str
        Labels of its panels.
    paper_data, data, shapes : tuple of str
        The paper's data sets; those that it is made with by default; data sets whose shape a
        synthetic one takes instead.
    metrics : tuple of str
        What is shown.
    seeds : tuple of int
        Seeds by default.
    variants : tuple of Variant
        What is fitted.
    reference : str or None
        The variant that the others are compared with.
    axes : tuple of Axis
        Parameters of a grid.
    probe : Probe or None
        Settings of the linear probe.
    quick : Quick
        Data and seeds of the quick mode.
    note : str
        What a reader should know beside the numbers.
    """

    name: str = Field(pattern=_NAME)
    kind: Literal["table", "figure"]
    task: Task
    label: str
    title: str
    numbers: str | None = None
    parts: tuple[str, ...] = ()
    paper_data: tuple[str, ...] = Field(min_length=1)
    data: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    metrics: tuple[str, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = ()
    variants: tuple[Variant, ...] = ()
    reference: str | None = None
    axes: tuple[Axis, ...] = ()
    probe: Probe | None = None
    quick: Quick
    note: str = ""

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        needed: dict[Task, tuple[str, ...]] = {
            "differences": ("reference",),
            "views": ("reference",),
            "probe": ("probe",),
            "grid": ("axes",),
            "facts": ("numbers",),
        }
        names = needed.get(self.task, ())
        if self.task != "facts":
            names = (*names, "variants", "seeds", "shapes" if self.task == "time" else "data")
        missing = [name for name in names if not getattr(self, name)]
        if missing:
            raise ValueError(f"the item '{self.name}' is of task {self.task} and lacks {missing}")
        rows = [variant.name for variant in self.variants]
        if len(set(rows)) < len(rows):
            raise ValueError(f"two variants of the item '{self.name}' have the same name")
        if self.reference is not None and self.reference not in rows:
            raise ValueError(f"'{self.reference}' is no variant of the item '{self.name}'")
        return self

    @property
    def datasets(self) -> tuple[str, ...]:
        """Every data set that it names, those of the quick mode too."""
        named = (*self.paper_data, *self.data, *self.shapes, *self.quick.data, *self.quick.shapes)
        return tuple(dict.fromkeys(named))

    def variant(self, name: str) -> Variant:
        """Return the variant of that name."""
        by_name = {variant.name: variant for variant in self.variants}
        if name not in by_name:
            raise SettingError(
                f"The item '{self.name}' has no variant '{name}'. {nearest(name, by_name)}"
            )
        return by_name[name]

    def combinations(self, *, quick: bool = False) -> list[dict[str, float]]:
        """List the settings of the grid, one for each point; a single empty one without a grid."""
        names = [axis.parameter for axis in self.axes]
        values = [axis.quick if quick else axis.values for axis in self.axes]
        return [dict(zip(names, point, strict=True)) for point in itertools.product(*values)]


class ItemFile(_Record):
    """What ``items.toml`` holds: recipes by method and data set, quick settings, the items."""

    recipes: dict[str, dict[str, str]]
    quick_settings: dict[str, dict[str, Any]]
    items: dict[str, Item]


def items() -> Mapping[str, Item]:
    """Return all items by their names, in the order of the file."""
    return MappingProxyType(item_file().items)


def item(name: str) -> Item:
    """Return the item of that name."""
    if name not in items():
        raise SettingError(f"The paper has no item '{name}'. {nearest(name, items())}")
    return items()[name]


def recipe_of(method: str, dataset: str) -> str | None:
    """Return the name of the method's recipe for a data set, if it has one."""
    return item_file().recipes.get(method, {}).get(dataset)


def settings_of(
    variant: Variant, dataset: str, *, recipes: bool = False, quick: bool = False
) -> dict[str, Any]:
    """Return the settings of a variant on a data set, beside the method's defaults.

    Parameters
    ----------
    variant : Variant
        One of an item's.
    dataset : str
        Name of the catalogue, for the recipe.
    recipes : bool
        Whether to begin with the recipe for the data set, where there is one. Recipes were found
        with the labels in sight: results with and without them belong in separate columns.
    quick : bool
        Whether to learn for a few epochs only.
    """
    settings: dict[str, Any] = {}
    name = recipe_of(variant.method, dataset)
    if recipes and name is not None:
        settings |= recipe(name, variant.method).settings
    if quick:
        settings |= item_file().quick_settings[variant.method]
    settings |= variant.settings
    return settings | variant.quick if quick else settings


def check_item(found: Item) -> None:
    """Check an item against the methods, the catalogue, the recipes and the paper's numbers.

    Raises
    ------
    SettingError
        If it names a method, a parameter, a data set, a table or a row that there is not, or gives
        a parameter a value that it cannot have.
    """
    for dataset in found.datasets:
        _check_dataset(dataset)
    for variant in found.variants:
        _check_variant(found, variant)
    if found.numbers is not None:
        _check_numbers(found)


def _check_dataset(name: str) -> None:
    entry = find(name)
    if entry.name != name:
        raise SettingError(f"The catalogue calls the data set '{name}' '{entry.name}'.")


def _check_variant(found: Item, variant: Variant) -> None:
    # Methods bring PyTorch along, which a list of the items does without.
    from dwcl.methods.registry import get_method
    from dwcl.methods.settings import check_settings

    method = get_method(variant.method)
    for quick, recipes in itertools.product((False, True), repeat=2):
        if quick and variant.method not in item_file().quick_settings:
            raise SettingError(f"The method '{variant.method}' has no settings for quick mode.")
        for dataset in found.datasets:
            settings = settings_of(variant, dataset, recipes=recipes, quick=quick)
            for point in found.combinations(quick=quick):
                check_settings(method, settings | point)


def _check_numbers(found: Item) -> None:
    printed = table(str(found.numbers))
    shown = [variant.name for variant in found.variants if not variant.extra]
    for row in shown:
        if row not in printed.rows:
            raise SettingError(
                f"The paper's table '{printed.name}' has no row '{row}'. "
                f"{nearest(row, printed.rows)}"
            )
    for what, names, known in (
        ("metric", found.metrics, printed.metrics),
        ("data set", found.paper_data, printed.datasets),
    ):
        for name in names:
            if name not in known:
                raise SettingError(
                    f"The paper's table '{printed.name}' has no {what} '{name}'. "
                    f"{nearest(name, known)}"
                )


@functools.cache
def item_file() -> ItemFile:
    """Return all that the file of the items holds."""
    text = resources.files("dwcl.experiments.paper").joinpath("items.toml").read_text("utf-8")
    return read_items(text)


def read_items(text: str) -> ItemFile:
    """Read a file of items, with what they take over from each other filled in."""
    content = tomllib.loads(text)
    quick = content["quick"]
    given: dict[str, dict[str, Any]] = content["items"]
    complete: dict[str, Any] = {}
    for name in given:
        fields = _filled_in(name, given)
        defaults = {"seeds": quick["seeds"]}
        if fields.get("data"):
            defaults["data"] = quick["data"]
        complete[name] = {**fields, "name": name, "quick": defaults | fields.get("quick", {})}
    return ItemFile(recipes=content["recipes"], quick_settings=quick["settings"], items=complete)


def _filled_in(name: str, given: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Lay what an item states over what the item that it is like states."""
    own = dict(given[name])
    like = own.pop("like", None)
    return own if like is None else _filled_in(like, given) | own
