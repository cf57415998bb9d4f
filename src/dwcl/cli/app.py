"""The application and its commands."""

from __future__ import annotations

from typing import Annotated

import typer

import dwcl
from dwcl.cli import bench, data, demo, evaluate, fit, listing, paper, predict, show
from dwcl.cli.guard import guarded

app = typer.Typer(
    name="dwcl",
    help="Multi-view clustering: from a file of several tables to clusters, a model and a record.",
    no_args_is_help=True,
    rich_markup_mode=None,  # it would take "[default: …]" for markup
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"dwcl {dwcl.__version__}")  # noqa: T201 - this is the output
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Multi-view clustering: from a file of several tables to clusters, a model and a record."""


app.command("fit")(guarded(fit.fit))
app.command("resume")(guarded(fit.resume))
app.command("predict")(guarded(predict.predict))
app.command("evaluate")(guarded(evaluate.evaluate))
app.command("show")(guarded(show.show))
app.command("demo")(guarded(demo.demo))
app.command("methods")(guarded(listing.methods))
app.command("recipes")(guarded(listing.recipes))
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")
app.add_typer(paper.app, name="paper")
