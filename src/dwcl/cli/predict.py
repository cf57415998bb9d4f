"""``dwcl predict``: clusters of new samples by a fitted model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape

from dwcl.cli.console import output, print_json
from dwcl.cli.options import (
    DataArgument,
    IdColumnOption,
    JsonOption,
    QuietOption,
    RunArgument,
    TransposeOption,
    ViewsOption,
    load_data,
)
from dwcl.cli.tables import sizes_line
from dwcl.errors import FileError


def predict(
    run: RunArgument,
    data: DataArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="CSV", help="Write here instead of standard output."),
    ] = None,
    views: ViewsOption = None,
    transpose: TransposeOption = None,
    id_column: IdColumnOption = None,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Assign the samples of DATA to the clusters of a run."""
    from dwcl.files import write_text
    from dwcl.storage.model import load_model
    from dwcl.storage.run import labels_csv

    model = load_model(run)
    given = load_data(data, views, None, transpose, id_column, progress=not (quiet or json))
    if out is not None and out.exists():
        raise FileError(f"{out} is there already; nothing is overwritten. Give another --out.")
    distances = model.centre_distances(given)
    found = distances.argmin(axis=1)
    sizes = np.bincount(found, minlength=model.n_clusters).tolist()
    table = labels_csv(given, distances)
    if out is not None:
        write_text(out, table)
    if json:
        print_json(
            {
                "run": str(run),
                "n_samples": given.n_samples,
                "cluster_sizes": sizes,
                "labels": found.tolist(),
            }
        )
    elif out is None:
        output().out(table, end="", highlight=False)
    elif not quiet:
        output().print(
            escape(f"{given.n_samples} samples; {sizes_line(sizes)}; labels in {out}"),
            soft_wrap=True,
        )
