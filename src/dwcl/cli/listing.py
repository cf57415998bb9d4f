"""``dwcl methods`` and ``dwcl recipes``: what there is to choose from."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from dwcl.cli.console import output, print_json
from dwcl.cli.options import JsonOption


def methods(json: JsonOption = False) -> None:
    """List the methods."""
    from dwcl.methods.registry import methods as all_methods

    found = {
        name: (method.__doc__ or "").strip().splitlines()[0]
        for name, method in all_methods().items()
    }
    if json:
        print_json(found)
        return
    table = Table("method", "what it is")
    for name, line in found.items():
        table.add_row(name, escape(line))
    output().print(table)


def recipes(json: JsonOption = False) -> None:
    """List the recipes: settings by name."""
    from dwcl.experiments.recipes import recipes as all_recipes

    if json:
        print_json({name: recipe.model_dump() for name, recipe in all_recipes().items()})
        return
    table = Table("recipe", "origin", "settings")
    for name, recipe in all_recipes().items():
        settings = ", ".join(f"{key}={value}" for key, value in recipe.settings.items())
        table.add_row(name, escape(recipe.origin), escape(settings))
    output().print(table)
