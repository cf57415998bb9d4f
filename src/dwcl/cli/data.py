"""``dwcl data``: the catalogue of data sets, and a look into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from dwcl.cli.console import output, print_json
from dwcl.cli.guard import guarded
from dwcl.cli.options import (
    DataArgument,
    IdColumnOption,
    JsonOption,
    LabelsOption,
    ObservedOption,
    QuietOption,
    TransposeOption,
    ViewsOption,
    load_data,
)
from dwcl.errors import SettingError

app = typer.Typer(help="Find, fetch, import and look into data sets.", no_args_is_help=True)

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="A name of the catalogue.", show_default=False)
]


@app.command("list")
@guarded
def list_(json: JsonOption = False) -> None:
    """List the data sets of the catalogue and whether they are here."""
    from dwcl.data.catalogue import entries
    from dwcl.data.fetch import status

    if json:
        print_json(
            {
                entry.name: {
                    **entry.model_dump(mode="json", exclude={"name", "mirrors"}),
                    "status": status(entry),
                }
                for entry in entries()
            }
        )
        return
    table = Table("name", "samples", "widths of the views", "classes", "state", box=SIMPLE)
    for entry in entries():
        widths = ", ".join(map(str, entry.widths)) if entry.widths else "–"
        table.add_row(
            entry.name, str(entry.n or "–"), widths, str(entry.classes or "–"), status(entry)
        )
    output().print(table)


@app.command()
@guarded
def show(
    data: DataArgument,
    views: ViewsOption = None,
    labels: LabelsOption = None,
    transpose: TransposeOption = None,
    id_column: IdColumnOption = None,
    observed: ObservedOption = None,
    json: JsonOption = False,
) -> None:
    """Show what dwcl understands of DATA."""
    from dwcl.data.describe import describe

    given = load_data(data, views, labels, transpose, id_column, observed, progress=not json)
    facts = describe(given)
    if json:
        print_json(facts)
        return
    console = output()
    console.print(escape(f"{facts['source']}: {facts['n']} samples"), soft_wrap=True)
    for line in facts["layout"]:
        console.print(escape(line), soft_wrap=True)
    gaps = any(view["missing"] for view in facts["views"])
    table = Table("view", "features", "type", "not zero", box=SIMPLE)
    if gaps:
        table.add_column("samples without it")
    for view in facts["views"]:
        kind = f"{view['type']}, sparse" if view["sparse"] else view["type"]
        row = [escape(view["name"]), str(view["width"]), kind, f"{view['density']:.1%}"]
        table.add_row(*row, *([str(view["missing"])] if gaps else []))
    console.print(table)
    values = facts["label_values"]
    console.print("no labels" if values is None else f"{values} label values")


@app.command()
@guarded
def fetch(
    name: NameArgument,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Download a data set, check it and keep it."""
    from dwcl.data.fetch import fetch as fetch_file

    path = fetch_file(name, progress=not (quiet or json))
    _say_where(path, json=json)


@app.command("import")
@guarded
def import_(
    name: NameArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file that you have.")],
    json: JsonOption = False,
) -> None:
    """Keep a file of yours as the data set NAME.

    It is copied once its hash, or where that is not known its shape, has been checked.
    """
    from dwcl.data.fetch import import_file

    _say_where(import_file(name, file), json=json)


@app.command()
@guarded
def build(
    name: NameArgument,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            help="Where the IDX files lie [default: where Debian's package puts them].",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which images make which sample.")] = 0,
    json: JsonOption = False,
) -> None:
    """Make a data set from its raw files; 'fashion' is the one there is."""
    from dwcl.data.catalogue import find
    from dwcl.data.fashion import build_fashion

    if find(name).kind != "build":
        raise SettingError(f"'{name}' is not built from raw files; 'fashion' is the one that is.")
    _say_where(build_fashion(from_, seed=seed), json=json)


def _say_where(path: Path, *, json: bool) -> None:
    if json:
        print_json({"path": str(path)})
    else:
        output().print(escape(str(path)), soft_wrap=True)
