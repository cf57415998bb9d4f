"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from dwcl.data.multiview import MultiView

DataArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A file or folder, or catalogue:NAME (see 'dwcl data list').",
        show_default=False,
    ),
]
RunArgument: TypeAlias = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)
]
ViewsOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--views", metavar="A,B,…", help="Which views or variables to take, in order."),
]
LabelsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--labels", metavar="NAME|FILE", help="Variable, column or file with known classes."
    ),
]
TransposeOption: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--transpose/--no-transpose",
        help="Samples are in columns, or in rows [default: found out].",
        show_default=False,
    ),
]
IdColumnOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--id-column",
        metavar="NAME",
        help="Column of the sample ids in a table [default: found out].",
        show_default=False,
    ),
]
ObservedOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--observed",
        metavar="FILE",
        help="Table of 0 and 1 that tells which samples have which views.",
    ),
]
JsonOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON object and nothing else.")
]
QuietOption: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no remarks.")
]

OPTIONS_OF_SETTINGS = {"n_clusters": "--clusters", "random_state": "--seed"}
"""Settings that have an option of their own, so that ``--set`` does not take them."""


def load_data(
    data: str,
    views: str | None = None,
    labels: str | None = None,
    transpose: bool | None = None,
    id_column: str | None = None,
    observed: str | None = None,
    *,
    progress: bool,
) -> MultiView:
    """Read the data that a command line names; a download shows its progress on a terminal."""
    from dwcl.data.fetch import resolve

    wanted = [name.strip() for name in views.split(",")] if views else None
    return resolve(
        data,
        views=wanted,
        labels=labels,
        transpose=transpose,
        id_column=id_column,
        observed=observed or None,
        progress=progress,
    )
