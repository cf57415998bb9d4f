"""``dwcl fit``: from data to clusters, in a run folder."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from dwcl.cli.console import messages, output, print_json
from dwcl.cli.options import (
    OPTIONS_OF_SETTINGS,
    DataArgument,
    IdColumnOption,
    JsonOption,
    LabelsOption,
    QuietOption,
    TransposeOption,
    ViewsOption,
    load_data,
)
from dwcl.cli.tables import sizes_line, views_table
from dwcl.errors import DataError, SettingError

if TYPE_CHECKING:
    from dwcl.data.multiview import MultiView


def fit(
    data: DataArgument,
    clusters: Annotated[
        str,
        typer.Option(
            "--clusters",
            "-k",
            metavar="K",
            help="Number of clusters, or 'labels' for as many as there are label values.",
            show_default=False,
        ),
    ],
    method: Annotated[
        str, typer.Option("--method", help="Which method; see 'dwcl methods'.")
    ] = "dwcl",
    recipe: Annotated[
        str | None,
        typer.Option("--recipe", metavar="NAME", help="Settings by name; see 'dwcl recipes'."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="One setting, stronger than the recipe's; may be repeated. "
            "See 'dwcl methods METHOD'.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The source of all randomness.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="RUN", help="The run folder [default: runs/NAME]."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the run folder if it is there.")
    ] = False,
    views: ViewsOption = None,
    labels: LabelsOption = None,
    transpose: TransposeOption = None,
    id_column: IdColumnOption = None,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Find the clusters of DATA and write a run folder.

    The folder holds labels.csv (cluster of each sample), the model, the history of the training
    and run.json (what was done, and with what). Known labels serve for scores alone.
    """
    settings = gather_settings(method, recipe, set_ or [], seed)
    say = not (quiet or json)
    given = load_data(data, views, labels, transpose, id_column, progress=say)
    if say:
        for line in given.provenance.layout:
            messages().print(escape(line), soft_wrap=True)
    n_clusters = count_clusters(clusters, given)
    folder = out or free_folder(Path("runs"), _stem(data))
    facts = run_fit(
        given, n_clusters, method, settings, folder, recipe=recipe, replace=force, say=say
    )
    if json:
        print_json({"run": str(folder), **facts})
    elif not quiet:
        show_result(facts, folder)


def gather_settings(
    method: str, recipe: str | None, assignments: list[str], seed: int
) -> dict[str, Any]:
    """Join a recipe's settings with single ones, which win."""
    from dwcl.experiments.recipes import recipe as find_recipe
    from dwcl.methods.registry import get_method
    from dwcl.methods.settings import check_settings, parse_settings

    settings: dict[str, Any] = {"random_state": seed}
    if recipe is not None:
        settings.update(check_settings(get_method(method), find_recipe(recipe).settings))
    single = parse_settings(get_method(method), assignments)
    for name, option in OPTIONS_OF_SETTINGS.items():
        if name in single:
            raise SettingError(f"'{name}' is not set with --set; give it with {option}.")
    settings.update(single)
    return check_settings(get_method(method), settings)


def count_clusters(wanted: str, data: MultiView) -> int:
    """Read the number of clusters, which comes from the user and never from the labels alone."""
    seen = data.n_label_values
    if wanted == "labels":
        if seen is None:
            raise DataError(
                "--clusters labels needs labels, and these data have none. Give a number, or name "
                "the labels with --labels."
            )
        if seen < 2:
            raise DataError(
                "--clusters labels finds one label value only; give the number of clusters, "
                "2 or more."
            )
        return seen
    if not wanted.isdecimal() or int(wanted) < 2:
        raise SettingError(
            f"--clusters is '{wanted}'; a whole number from 2 to the number of samples, "
            "or 'labels', is expected."
        )
    return int(wanted)


def run_fit(
    data: MultiView,
    n_clusters: int,
    method: str,
    settings: Mapping[str, Any],
    folder: Path,
    *,
    recipe: str | None,
    replace: bool,
    say: bool,
) -> dict[str, Any]:
    """Fit, score if labels are known, and write the run folder; returns what ``run.json`` holds."""
    from dwcl.cli.progress import progress_for
    from dwcl.methods.registry import get_method
    from dwcl.storage.run import check_free, read_run, write_run

    check_free(folder, replace=replace)
    model = get_method(method)(n_clusters, **settings)
    began = time.perf_counter()
    model.fit(data, callbacks=progress_for(messages(), quiet=not say))
    facts: dict[str, Any] = {
        "recipe": recipe,
        "seconds_total": round(time.perf_counter() - began, 3),
    }
    if data.labels is not None:
        from dwcl.evaluate.summary import score_model

        try:
            facts["scores"] = score_model(model, data.labels)
        except DataError as failure:  # labels that cannot be compared do not spoil the clusters
            facts["notes"] = [*model.notes_, f"no scores: {failure}"]
    write_run(folder, model, data, facts=facts, replace=replace)
    written = read_run(folder)
    del written["history"]
    return written


def show_result(facts: Mapping[str, Any], folder: Path) -> None:
    """Show the closing table."""
    console = output()
    console.print(views_table(facts))
    console.print(sizes_line(facts["cluster_sizes"]), soft_wrap=True)
    for note in facts["notes"]:
        console.print(escape(f"note: {note}"), soft_wrap=True)
    console.print(
        escape(f"{facts['seconds_total']:.1f} s; labels in {folder / 'labels.csv'}"),
        soft_wrap=True,
    )


def free_folder(parent: Path, stem: str) -> Path:
    """Name a run folder that is not there yet."""
    candidates = (parent / (stem if i == 1 else f"{stem}-{i}") for i in range(1, 100_000))
    return next(path for path in candidates if not path.exists())


def _stem(data: str) -> str:
    name = data.removeprefix("catalogue:")
    return Path(name).name.split(".")[0] or "run"
