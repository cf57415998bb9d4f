"""Recipes: named settings that ship as data."""

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
def recipes() -> Mapping[str, Recipe]:
    """Return all recipes by their names."""
    text = resources.files("dwcl.experiments").joinpath("recipes.toml").read_text("utf-8")
    return MappingProxyType(
        {name: Recipe.model_validate(entry) for name, entry in tomllib.loads(text).items()}
    )


def recipe(name: str) -> Recipe:
    """Return the recipe of that name."""
    if name not in recipes():
        raise SettingError(f"There is no recipe '{name}'. {nearest(name, recipes())}")
    return recipes()[name]
