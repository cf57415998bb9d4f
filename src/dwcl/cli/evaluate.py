"""``dwcl evaluate``: scores of a run against known classes."""

from __future__ import annotations

from typing import Annotated

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
from dwcl.cli.tables import ALL_VIEWS, SCORE_TITLES, result_table
from dwcl.errors import DataError

PROBE_TITLES = {"acc": "ACC", "recall": "recall", "f1": "F1"}


def evaluate(
    run: RunArgument,
    data: DataArgument,
    views: ViewsOption = None,
    labels: LabelsOption = None,
    transpose: TransposeOption = None,
    id_column: IdColumnOption = None,
    observed: ObservedOption = None,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe", help="Also train a linear SVM on the embedding (70/30, ten splits)."
        ),
    ] = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Score the clusters of DATA against its known classes.

    The clusters are those to which the run assigns the samples, as 'dwcl predict' does. DATA are
    read as those of the fit were, unless an option says otherwise; a file of labels is named anew.
    """
    from dwcl.evaluate.probe import linear_probe
    from dwcl.evaluate.summary import score_views
    from dwcl.storage.model import load_model

    model = load_model(run)
    source = as_the_fit_was_told(run, Source(data, views, labels, transpose, id_column, observed))
    given = source.load(say=not (quiet or json))
    if given.labels is None:
        raise DataError(
            f"{data} has no labels, and scores need them. Name a variable, a column or a file "
            "with one label per sample: --labels NAME."
        )
    scores = score_views(model, given, given.labels)
    if probe:
        scores["probe"] = linear_probe(
            model.transform(given), given.labels, random_state=model.seed_
        ).as_dict()
    if json:
        print_json({"run": str(run), "n_samples": given.n_samples, **scores})
        return
    title = f"{given.n_samples} samples, {given.n_label_values} label values"
    table = result_table(title)
    table.add_column("view", overflow="fold")
    for title in SCORE_TITLES.values():
        table.add_column(title, justify="right")
    for name, row in [*scores.get("views", {}).items(), (ALL_VIEWS, scores["clusters"])]:
        table.add_row(escape(name), *(f"{row[key]:.3f}" for key in SCORE_TITLES))
    output().print(table)
    if probe:
        found = scores["probe"]
        figures = ", ".join(
            f"{title} {found[f'{key}_mean']:.3f} ± {found[f'{key}_std']:.3f}"
            for key, title in PROBE_TITLES.items()
        )
        output().print(f"linear probe: {figures}", soft_wrap=True)
