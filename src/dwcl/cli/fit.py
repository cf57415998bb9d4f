"""``dwcl fit``: from data to clusters, in a run folder."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from dwcl.cli.console import messages, output, print_json
from dwcl.cli.interrupts import interrupts_point_to
from dwcl.cli.job import Job, Source
from dwcl.cli.options import (
    OPTIONS_OF_SETTINGS,
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
from dwcl.cli.tables import sizes_line, views_table
from dwcl.errors import DataError, FileError, SettingError, TrainingError

if TYPE_CHECKING:
    from dwcl.data.multiview import MultiView
    from dwcl.storage.unfinished import Unfinished


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
        str, typer.Option("--method", metavar="METHOD", help="Which method; see 'dwcl methods'.")
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
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="S", help="The source of all randomness.")
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="RUN", help="The run folder [default: runs/NAME]."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the run folder if it is there.")
    ] = False,
    checkpoint_every: Annotated[
        float,
        typer.Option(
            "--checkpoint-every",
            metavar="SECONDS",
            min=0.0,
            help="How often the state is saved, beside the ends of phases; see 'dwcl resume'.",
        ),
    ] = 300.0,
    views: ViewsOption = None,
    labels: LabelsOption = None,
    transpose: TransposeOption = None,
    id_column: IdColumnOption = None,
    observed: ObservedOption = None,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Find the clusters of DATA and write a run folder.

    The folder holds labels.csv (cluster of each sample), the model, the history of the training
    and run.json (what was done, and with what). Known labels serve for scores alone.
    """
    settings = gather_settings(method, recipe, set_ or [], seed)
    say = not (quiet or json)
    source = Source(data, views, labels, transpose, id_column, observed)
    given = source.load(say=say)
    job = Job(
        source=source,
        n_clusters=count_clusters(clusters, given),
        method=method,
        settings=settings,
        recipe=recipe,
        checkpoint_every=checkpoint_every,
    )
    folder = out or free_folder(Path("runs"), _stem(data))
    facts = run_fit(given, job, folder, replace=force, say=say)
    tell_result(facts, folder, quiet=quiet, json=json)


def resume(run: RunArgument, quiet: QuietOption = False, json: JsonOption = False) -> None:
    """Go on with a fit that was broken off.

    RUN is the folder that the fit was to write, as its last message named it. The result is that
    of a fit in one go, to the byte.
    """
    from dwcl.storage.unfinished import Unfinished

    say = not (quiet or json)
    unfinished = Unfinished(run)
    job = Job.from_plain(unfinished.job(), unfinished.folder)
    given = job.source.load(say=say)
    facts = run_fit(given, job, unfinished.run, replace=job.replace, say=say, resumed=True)
    tell_result(facts, unfinished.run, quiet=quiet, json=json)


def gather_settings(
    method: str, recipe: str | None, assignments: list[str], seed: int
) -> dict[str, Any]:
    """Join a recipe's settings with single ones, which win."""
    from dwcl.experiments.recipes import recipe as find_recipe
    from dwcl.methods.registry import get_method
    from dwcl.methods.settings import check_settings, parse_settings

    settings: dict[str, Any] = {"random_state": seed}
    if recipe is not None:
        settings.update(check_settings(get_method(method), find_recipe(recipe, method).settings))
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
    job: Job,
    folder: Path,
    *,
    replace: bool,
    say: bool,
    resumed: bool = False,
) -> dict[str, Any]:
    """Fit, score if labels are known, and write the run folder; returns what ``run.json`` holds.

    While it lasts, its checkpoints lie beside the run folder that is to come.
    """
    from dwcl.methods.registry import get_method
    from dwcl.storage.run import check_free, is_written, read_run
    from dwcl.storage.unfinished import Unfinished

    model = get_method(job.method)(job.n_clusters, **job.settings)
    # Of a process that was killed when all was done but the tidying up.
    over = resumed and not replace and is_written(folder, model, data)
    if not over:
        check_free(folder, replace=replace)
    unfinished = Unfinished(folder)
    with unfinished.held(), interrupts_point_to(unfinished):
        if resumed:
            unfinished.job()  # another process may have ended it before this one came to hold it
        else:
            check_free(folder, replace=replace)  # or have written the same run
            noted = dataclasses.replace(job, replace=replace).as_plain()
            unfinished.begin(noted, replace=replace)
        if not over:
            _train(unfinished, model, data, job, replace=replace, say=say, resumed=resumed)
        unfinished.discard()
    written = read_run(folder)
    del written["history"]
    return written


def _train(
    unfinished: Unfinished,
    model: Any,
    data: MultiView,
    job: Job,
    *,
    replace: bool,
    say: bool,
    resumed: bool,
) -> None:
    """Fit, score and write; what stops the training leaves its last good state."""
    from dwcl.cli.progress import EarlierLegs, progress_for
    from dwcl.training.checkpoint import Checkpoints

    earlier, began = EarlierLegs(), time.perf_counter()
    try:
        model.fit(
            data,
            callbacks=[earlier, *progress_for(messages(), quiet=not say)],
            # They stay until the run folder is written: a full disk shall cost no training.
            checkpoint=Checkpoints(unfinished.folder, job.checkpoint_every, keep=True),
        )
    except TrainingError as failure:
        if not unfinished.has_checkpoint:
            raise
        raise TrainingError(
            f"{failure} The last good state is kept in {unfinished.folder}. To fit with other "
            "settings, add --force, which discards it, or give another --out."
        ) from failure
    facts = {
        "recipe": job.recipe,
        "reading": job.source.reading(),
        "seconds_total": round(earlier.seconds + time.perf_counter() - began, 3),
        "resumed": resumed,
        **_findings(model, data, job),
    }
    _write(unfinished, model, data, facts, replace=replace)


def _findings(model: Any, data: MultiView, job: Job) -> dict[str, Any]:
    """Score what was found, where labels are known, and note what a reader should know."""
    of_recipe = recipe_notes(job.method, job.recipe, data, model.n_clusters)
    notes, scores = [*model.notes_, *of_recipe], None
    if data.labels is not None:
        from dwcl.evaluate.summary import score_model

        try:
            scores = score_model(model, data.labels)
        except DataError as failure:  # labels that cannot be compared do not spoil the clusters
            notes.append(f"no scores: {failure}")
    return {"notes": notes} | ({} if scores is None else {"scores": scores})


def recipe_notes(method: str, name: str | None, data: MultiView, n_clusters: int) -> list[str]:
    """Say where data differ from those that a recipe was made for: its settings may not suit."""
    from dwcl.experiments.recipes import recipe as find_recipe

    if name is None:
        return []
    recipe, notes = find_recipe(name, method), []
    if recipe.widths is not None and sorted(recipe.widths) != sorted(data.widths):
        made_for, given = (", ".join(map(str, widths)) for widths in (recipe.widths, data.widths))
        notes.append(
            f"the recipe '{name}' was made for views of {made_for} features; these have {given}"
        )
    if recipe.n_clusters is not None and recipe.n_clusters != n_clusters:
        notes.append(
            f"the recipe '{name}' was made for {recipe.n_clusters} clusters; "
            f"{n_clusters} were asked for"
        )
    return notes


def _write(
    unfinished: Unfinished, model: Any, data: MultiView, facts: dict[str, Any], *, replace: bool
) -> None:
    """Write the run folder; if that cannot be, say what is left of the training."""
    from dwcl.storage.run import write_run

    try:
        write_run(
            unfinished.run,
            model,
            data,
            facts=facts,
            replace=replace,
            workshop=unfinished.folder,  # what a killed process leaves there goes with it
        )
    except FileError as failure:
        if not unfinished.has_checkpoint:
            raise
        # The last checkpoint is that of the end, unless it found no room either.
        raise FileError(
            f"{failure} The training is kept in {unfinished.folder}, up to its last checkpoint. "
            f"Once the place is free, dwcl resume {unfinished.run} writes the run."
        ) from failure


def tell_result(facts: Mapping[str, Any], folder: Path, *, quiet: bool, json: bool) -> None:
    """Show the result in the way that was asked for."""
    if json:
        print_json({"run": str(folder), **facts})
    elif not quiet:
        show_result(facts, folder)


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
    """Name a run folder that is not there yet, and that no unfinished run is to become."""
    from dwcl.storage.unfinished import Unfinished

    candidates = (parent / (stem if i == 1 else f"{stem}-{i}") for i in range(1, 100_000))
    return next(
        path for path in candidates if not path.exists() and not Unfinished(path).folder.exists()
    )


def _stem(data: str) -> str:
    name = data.removeprefix("catalogue:")
    return Path(name).name.split(".")[0] or "run"
