"""``dwcl predict``: clusters of new samples by a fitted model."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.markup import escape

from dwcl.cli.console import output, print_json
from dwcl.cli.job import Source, as_the_fit_was_told
from dwcl.cli.options import (
    DataArgument,
    IdColumnOption,
    JsonOption,
    LabelsOption,
    ObservedOption,
    QuietOption,
    RunArgument,
    TransposeOption,
    ViewsOption,
)
from dwcl.cli.tables import sizes_line
from dwcl.errors import DataError, FileError

if TYPE_CHECKING:
    from dwcl.data.multiview import MultiView


def predict(
    run: RunArgument,
    data: DataArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="CSV", help="Write here instead of standard output."),
    ] = None,
    views: ViewsOption = None,
    labels: LabelsOption = None,
    transpose: TransposeOption = None,
    id_column: IdColumnOption = None,
    observed: ObservedOption = None,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Assign the samples of DATA to the clusters of a run.

    DATA are read as those of the fit were, unless an option says otherwise; an empty one, such as
    --id-column "", leaves it to be found out. A column of labels is left aside, and may be missing.
    """
    from dwcl.files import write_text
    from dwcl.storage.model import load_model
    from dwcl.storage.run import labels_csv, nearest_two

    model = load_model(run)
    said = Source(data, views, labels, transpose, id_column, observed)
    given = _load(run, said, say=not (quiet or json))
    if out is not None and out.exists():
        raise FileError(f"{out} is there already; nothing is overwritten. Give another --out.")
    distances = model.centre_distances(given)
    own, distance, next_distance = nearest_two(distances)
    sizes = np.bincount(own, minlength=model.n_clusters).tolist()
    table = labels_csv(given, distances)
    if out is not None:
        write_text(out, table)
    if json:
        print_json(
            {
                "run": str(run),
                "n_samples": given.n_samples,
                "layout": list(given.provenance.layout),
                "cluster_sizes": sizes,
                "samples": given.sample_ids.tolist(),
                "labels": own.tolist(),
                "distance": distance.tolist(),
                "next_distance": next_distance.tolist(),
            }
        )
    elif out is None:
        _print_table(table)
    elif not quiet:
        output().print(
            escape(f"{given.n_samples} samples; {sizes_line(sizes)}; labels in {out}"),
            soft_wrap=True,
        )


def _load(run: Path, said: Source, *, say: bool) -> MultiView:
    """Read the data; labels that the fit had beside the features may be missing from new ones."""
    source = as_the_fit_was_told(run, said)
    try:
        return source.load(say=say)
    except DataError as failure:
        # The readers have one beginning for labels that are not there, whatever the format.
        not_there = str(failure).startswith(f"labels='{source.labels}'")
        if said.labels is not None or not not_there:
            raise
    return replace(source, labels=None).load(say=say)


def _print_table(table: str) -> None:
    """Print the table as it is: ids with other letters would be other ids."""
    try:
        table.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        raise DataError(
            f"Sample ids have letters that this terminal ({sys.stdout.encoding}) cannot show. "
            "Write the table to a file with --out, which is UTF-8."
        ) from None
    output().out(table, end="", highlight=False)
