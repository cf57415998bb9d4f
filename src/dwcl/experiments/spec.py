"""What an experiment is: methods × data sets × seeds × options, written down as a TOML file.

.. code-block:: toml

    title = "Temperature of two methods"
    data = ["catalogue:digits", "tables/mine.csv"]
    seeds = [0, 1, 2]

    [settings]                      # of every method that has them
    precision = "fp32"

    [[runs]]
    method = "dwcl"
    grid = { temperature = [0.5, 1.0] }   # a column for each value

    [[runs]]
    method = "sem"
    label = "SEM, long"
    settings = { epochs = 100 }
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from dwcl.errors import FileError, SettingError, nearest
from dwcl.experiments.recipes import recipe as find_recipe
from dwcl.methods.registry import get_method
from dwcl.methods.settings import check_settings, settings_model

Extra: TypeAlias = Literal["views", "probe", "map"]

RESERVED = {"n_clusters": "'clusters' of the data", "random_state": "'seeds'"}
"""Settings that a specification states elsewhere."""
SHAPE = "shape:"
"""What marks drawn data that have the shape of an entry of the catalogue."""


class DataChoice(BaseModel):
    """A data set of an experiment.

    Attributes
    ----------
    source : str
        A file, a folder, or ``catalogue:NAME``; ``shape:NAME`` for drawn data of the shape of an
        entry of the catalogue, which tell time and memory and nothing else.
    name : str
        For tables; by default that of the file or of the catalogue.
    clusters : int or None
        Number of clusters; None for as many as there are label values.
    views, labels : tuple of str or None, str or None
        As for :func:`dwcl.read`.
    seeds : tuple of int or None
        Instead of the experiment's: large data may have fewer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    name: str = ""
    clusters: int | None = Field(default=None, ge=2)
    views: tuple[str, ...] | None = None
    labels: str | None = None
    seeds: tuple[int, ...] | None = Field(default=None, min_length=1)

    @property
    def title(self) -> str:
        """Return the name for tables."""
        if self.name:
            return self.name
        if self.source.startswith(SHAPE):
            return f"{self.source.removeprefix(SHAPE)} (shape)"
        return Path(self.source.removeprefix("catalogue:")).name.split(".")[0]


class RunChoice(BaseModel):
    """A method of an experiment with its settings; a grid makes several columns of it.

    Attributes
    ----------
    method, label : str
        The method, and the name of its column.
    recipe : str, dict of str to str, or None
        Settings by name, for all data sets or by the name of the data set. Columns with a recipe
        say so in their names: results under recipes and under one default are different things.
    settings, grid : dict
        Single settings, and lists of values of which each combination is tried.
    data : list of str or None
        Names of the data sets that it is for; None for all.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str
    label: str = ""
    recipe: str | dict[str, str] | None = None
    settings: dict[str, Any] = {}
    grid: dict[str, list[Any]] = {}
    data: list[str] | None = None


class Spec(BaseModel):
    """An experiment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    data: list[DataChoice] = Field(min_length=1)
    seeds: list[int] = Field(min_length=1)
    settings: dict[str, Any] = {}
    runs: list[RunChoice] = Field(min_length=1)

    @field_validator("data", mode="before")
    @classmethod
    def _sources(cls, value: Any) -> Any:
        """Let a text alone stand for a data set."""
        if not isinstance(value, list):
            return value
        return [{"source": entry} if isinstance(entry, str) else entry for entry in value]


@dataclass(frozen=True)
class Trial:
    """One run of an experiment: a cell of its table, for one seed.

    Attributes
    ----------
    column : str
        Name of the column: method, options, and whether a recipe has a part in it.
    data : DataChoice
    method, recipe : str, str or None
    settings : mapping
        Checked settings without the number of clusters and the seed.
    seed : int
    extras : tuple of str
        What is taken down beside the scores: ``views`` (scores of each view's features), ``probe``
        (the linear probe), ``map`` (the features in the plane).
    """

    column: str
    data: DataChoice
    method: str
    recipe: str | None
    settings: Mapping[str, Any]
    seed: int
    extras: tuple[Extra, ...] = ()


def read_spec(name_or_path: str) -> Spec:
    """Read a specification: a file, or one that ships with dwcl by its name."""
    path = Path(name_or_path).expanduser()
    if path.suffix == ".toml" or path.is_file():
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as failure:
            raise FileError(f"The specification {path} cannot be read: {failure}.") from None
    elif name_or_path in shipped():
        text = shipped()[name_or_path]
    else:
        raise SettingError(
            f"There is no specification '{name_or_path}': no such file, and none of that name "
            f"ships with dwcl. {nearest(name_or_path, shipped())}"
        )
    return parse_spec(text, name_or_path)


def shipped() -> Mapping[str, str]:
    """Return the texts of the specifications that ship with dwcl, by name."""
    folder = resources.files("dwcl.experiments").joinpath("specs")
    found = {file.name.removesuffix(".toml"): file for file in folder.iterdir()}
    return MappingProxyType({name: found[name].read_text("utf-8") for name in sorted(found)})


def parse_spec(text: str, origin: str) -> Spec:
    """Make a specification of its text, and check that everything in it exists."""
    try:
        spec = Spec.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as failure:
        raise SettingError(f"The specification {origin} is not TOML: {failure}.") from None
    except ValidationError as failure:
        first = failure.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SettingError(
            f"The specification {origin} is not understood: {where}: {first['msg'].lower()}. "
            "Expected are title, data, seeds and runs with a method each."
        ) from None
    trials(spec)
    return spec


def trials(spec: Spec) -> list[Trial]:
    """List the runs of an experiment: data set by data set, column by column, seed by seed."""
    titles = [data.title for data in spec.data]
    if len(set(titles)) < len(titles):
        raise SettingError(f"Two data sets have one name in {titles}; give them a 'name' each.")
    _check_shared(spec)
    found = []
    for data in spec.data:
        columns: dict[str, tuple[str, Mapping[str, Any]]] = {}
        for run in spec.runs:
            _check_names(run, titles)
            if run.data is not None and data.title not in run.data:
                continue
            for column, recipe, settings in _columns(run, spec.settings, data.title):
                if column in columns and columns[column] != (run.method, settings):
                    raise SettingError(
                        f"Two different runs are called '{column}'; give one of them a 'label'."
                    )
                columns[column] = (run.method, settings)
                found += [
                    Trial(column, data, run.method, recipe, settings, seed)
                    for seed in dict.fromkeys(data.seeds or spec.seeds)
                ]
    return found


def _columns(
    run: RunChoice, shared: Mapping[str, Any], title: str
) -> list[tuple[str, str | None, Mapping[str, Any]]]:
    """Make name, recipe and settings of each column of a run for a data set."""
    method = get_method(run.method)
    known = settings_model(method).model_fields
    recipe = run.recipe.get(title) if isinstance(run.recipe, dict) else run.recipe
    given = {name: value for name, value in shared.items() if name in known}
    if recipe is not None:
        given |= find_recipe(recipe, run.method).settings
    given |= run.settings
    columns: list[tuple[str, str | None, Mapping[str, Any]]] = []
    for values in itertools.product(*run.grid.values()):
        point = dict(zip(run.grid, values, strict=True))
        for name in (*given, *point):
            if name in RESERVED:
                raise SettingError(
                    f"'{name}' is not a setting of a specification; it has {RESERVED[name]}."
                )
        parts = [run.label or run.method, *(f"{name}={value}" for name, value in point.items())]
        column = ", ".join(parts) + ("" if run.recipe is None else " (recipe)")
        settings = check_settings(method, {**given, **point})
        columns.append((column, recipe, settings))
    return columns


def _check_names(run: RunChoice, titles: list[str]) -> None:
    named = [*(run.data or []), *(run.recipe if isinstance(run.recipe, dict) else ())]
    for name in named:
        if name not in titles:
            raise SettingError(f"The specification has no data '{name}'. {nearest(name, titles)}")


def _check_shared(spec: Spec) -> None:
    """Refuse a shared setting that no method has: it would be left out without a word."""
    known = {
        name for run in spec.runs for name in settings_model(get_method(run.method)).model_fields
    }
    for name in spec.settings:
        if name not in known:
            raise SettingError(f"No method here has a setting '{name}'. {nearest(name, known)}")
