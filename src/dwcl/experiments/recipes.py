"""Recipes: named settings that ship as data, a file for each method in the folder ``settings``."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ConfigDict

from dwcl.errors import SettingError, nearest


class Recipe(BaseModel):
    """Settings with where they come from.

    Attributes
    ----------
    origin : str
        ``paper`` for the published settings of a data set, else a remark.
    n_clusters : int or None
        Number of classes of the data set that the recipe was made for; never used by itself.
    widths : tuple of int or None
        Widths of that data set's views.
    settings : dict
        Parameters of the method.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    origin: str
    n_clusters: int | None = None
    widths: tuple[int, ...] | None = None
    settings: dict[str, Any]


@functools.cache
def recipes(method: str = "dwcl") -> Mapping[str, Recipe]:
    """Return all recipes of a method by their names; a method need not have any."""
    file = resources.files("dwcl.experiments").joinpath("settings", f"{method}.toml")
    entries = tomllib.loads(file.read_text("utf-8")) if file.is_file() else {}
    return MappingProxyType({name: Recipe.model_validate(entries[name]) for name in entries})


def recipe(name: str, method: str = "dwcl") -> Recipe:
    """Return a method's recipe of that name."""
    known = recipes(method)
    if not known:
        raise SettingError(f"The method '{method}' has no recipes; leave out '{name}'.")
    if name not in known:
        raise SettingError(
            f"There is no recipe '{name}' for the method '{method}'. {nearest(name, known)}"
        )
    return known[name]
