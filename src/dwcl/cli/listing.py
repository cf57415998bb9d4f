"""``dwcl methods`` and ``dwcl recipes``: what there is to choose from."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from dwcl.cli.console import output, print_json
from dwcl.cli.options import OPTIONS_OF_SETTINGS, JsonOption


def methods(
    name: Annotated[
        str | None,
        typer.Argument(metavar="METHOD", help="List the settings of this one.", show_default=False),
    ] = None,
    json: JsonOption = False,
) -> None:
    """List the methods, or the settings of one."""
    from dwcl.methods.registry import methods as all_methods

    if name is not None:
        _settings(name, json=json)
        return
    found = {
        name: (method.__doc__ or "").strip().splitlines()[0]
        for name, method in all_methods().items()
    }
    if json:
        print_json(found)
        return
    table = Table("method", "what it is", box=SIMPLE)
    for name, line in found.items():
        table.add_row(name, escape(line))
    output().print(table)


def _settings(name: str, *, json: bool) -> None:
    from dwcl.methods.registry import get_method
    from dwcl.methods.settings import settings_model

    defaults = {
        setting: field.default
        for setting, field in settings_model(get_method(name)).model_fields.items()
        if setting not in OPTIONS_OF_SETTINGS
    }
    if json:
        print_json(defaults)
        return
    table = Table("setting", "default", box=SIMPLE)
    for setting, default in defaults.items():
        table.add_row(setting, escape(_as_assigned(default)))
    output().print(table)


def _as_assigned(value: Any) -> str:
    """Word a value as ``--set`` takes it."""
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def recipes(
    method: Annotated[
        str | None,
        typer.Argument(metavar="METHOD", help="List those of this method.", show_default=False),
    ] = None,
    json: JsonOption = False,
) -> None:
    """List the recipes: settings by name, for one method or for all."""
    from dwcl.experiments.recipes import recipes as recipes_of
    from dwcl.methods.registry import get_method
    from dwcl.methods.registry import methods as all_methods

    chosen = all_methods() if method is None else {method: get_method(method)}
    found = {name: recipes_of(name) for name in chosen}
    if json:
        print_json(
            {
                name: {key: recipe.model_dump() for key, recipe in listed.items()}
                for name, listed in found.items()
                if listed
            }
        )
        return
    table = Table("method", "recipe", "origin", "settings", box=SIMPLE)
    for name, listed in found.items():
        for key, recipe in listed.items():
            settings = ", ".join(f"{s}={_as_assigned(v)}" for s, v in recipe.settings.items())
            table.add_row(name, key, escape(recipe.origin), escape(settings))
    output().print(table)
