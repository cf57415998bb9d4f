"""``dwcl bench run`` and what is done with its results."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from dwcl.cli.console import messages, output, print_json
from dwcl.cli.guard import guarded
from dwcl.cli.options import JsonOption, QuietOption
from dwcl.errors import FileError, SettingError

if TYPE_CHECKING:
    from dwcl.experiments.comparison import Comparison
    from dwcl.experiments.runner import Progress as Advance
    from dwcl.experiments.store import Row
    from dwcl.experiments.summary import Summary

StoreOption = Annotated[
    Path, typer.Option("--store", metavar="FILE", help="The SQLite file with the results.")
]
SourceArgument = Annotated[
    Path,
    typer.Argument(
        metavar="RESULTS", help="A store, or a file of records (.jsonl).", show_default=False
    ),
]
ExperimentOption = Annotated[
    str | None,
    typer.Option("--experiment", metavar="TITLE", help="Which one, where a store has several."),
]
MetricOption = Annotated[
    str, typer.Option("--metric", help="acc, nmi, ari, purity, f, seconds or peak_memory.")
]
DEFAULT_STORE = Path("bench.sqlite")


def register(app: typer.Typer) -> None:
    """Add the commands to those of ``dwcl bench``."""
    for command in (run, table, compare, export, specs):
        app.command()(guarded(command))
    app.command("import")(guarded(import_))


def run(
    spec: Annotated[
        str,
        typer.Argument(
            metavar="SPEC",
            help="A TOML file, or the name of one that ships (see 'dwcl bench specs').",
            show_default=False,
        ),
    ],
    store: StoreOption = DEFAULT_STORE,
    jobs: Annotated[
        int, typer.Option("--jobs", min=1, help="Runs side by side, one thread each.")
    ] = 1,
    hours: Annotated[
        float | None,
        typer.Option("--hours", min=0.0, help="Stop after this time; run again to go on."),
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Try failed runs again.")] = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Run methods × data sets × seeds, in parallel, and keep every result in a store.

    A run that is in the store is never done again; one that was broken off goes on from its
    checkpoint. So the same command goes on after a kill.
    """
    from dwcl.experiments.runner import run_experiment
    from dwcl.experiments.spec import read_spec
    from dwcl.experiments.store import Store
    from dwcl.experiments.summary import summarise

    wanted = read_spec(spec)
    with Store(store) as opened:
        watch = Watch(silent=quiet or json)
        try:
            result = run_experiment(
                wanted, opened, jobs=jobs, hours=hours, retry=retry, watch=watch
            )
        finally:
            watch.close()
        rows = opened.rows(wanted.title)
    if json:
        print_json(
            {
                "store": str(store),
                "experiment": wanted.title,
                "done": result.done - result.failed,
                "failed": result.failed,
                "open": result.total - result.done,
            }
        )
    elif not quiet:
        output().print(_shown(summarise(rows, "acc")))
        _tell_failures(rows)
        if result.done < result.total:
            messages().print(
                f"{result.total - result.done} of {result.total} runs are still to be done; "
                "the same command goes on."
            )


def table(
    results: SourceArgument,
    metric: MetricOption = "acc",
    experiment: ExperimentOption = None,
    format_: Annotated[
        str, typer.Option("--format", help="terminal, markdown or latex.")
    ] = "terminal",
    json: JsonOption = False,
) -> None:
    """Show mean ± standard deviation over the seeds, number of runs, and what failed."""
    from dwcl.experiments.formats import latex, markdown
    from dwcl.experiments.summary import summarise

    rows = _rows(results, experiment)
    summary = summarise(rows, metric)
    makers = {"markdown": markdown, "latex": latex}
    if json:
        print_json(_as_plain(summary))
    elif format_ in makers:
        output().print(makers[format_](summary), end="", markup=False, soft_wrap=True)
    elif format_ == "terminal":
        output().print(_shown(summary))
        _tell_failures(rows)
    else:
        raise SettingError(f"There is no format '{format_}': terminal, markdown or latex.")


def compare(
    results: SourceArgument,
    metric: MetricOption = "acc",
    experiment: ExperimentOption = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw the ranks (.png, .pdf or .svg)."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Tell whether methods differ: ranks, Friedman and Wilcoxon tests, intervals."""
    from dataclasses import asdict

    from dwcl.experiments.comparison import compare as compare_methods
    from dwcl.experiments.summary import summarise

    found = compare_methods(summarise(_rows(results, experiment), metric))
    if plot is not None:
        _draw(found, metric, plot)
    if json:
        print_json(asdict(found))
    else:
        _show_comparison(found, metric)


def export(
    results: SourceArgument,
    target: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Its ending says what: .jsonl (records), .csv, .parquet, .md or .tex.",
            show_default=False,
        ),
    ],
    metric: MetricOption = "acc",
    experiment: ExperimentOption = None,
) -> None:
    """Write the results of an experiment to a file."""
    from dwcl.experiments import formats
    from dwcl.experiments.journal import write_journal
    from dwcl.experiments.store import Store
    from dwcl.experiments.summary import summarise

    rows = _rows(results, experiment)
    if target.suffix == ".jsonl":
        with Store(results, new=False) as store:
            count = write_journal(target, store, rows)
        messages().print(escape(f"{count} records in {target}"))
        return
    formats.export(rows, target, summarise(rows, metric))
    messages().print(escape(f"{len(rows)} runs in {target}"))


def import_(
    records: Annotated[
        Path, typer.Argument(metavar="RECORDS", help="A .jsonl file.", show_default=False)
    ],
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Take runs over from records, so that 'dwcl bench run' does not do them again."""
    from dwcl.experiments.journal import read_journal
    from dwcl.experiments.store import Store

    found = read_journal(records)
    with Store(store) as opened:
        count = opened.take_over(found)
    messages().print(escape(f"{count} of {len(found)} runs were new to {store}"))


def specs(json: JsonOption = False) -> None:
    """List the specifications that ship with dwcl."""
    from dwcl.experiments.spec import parse_spec, shipped, trials

    found = {name: parse_spec(text, name) for name, text in shipped().items()}
    if json:
        print_json({name: spec.model_dump() for name, spec in found.items()})
        return
    shown = Table("name", "what", "data", "runs")
    for name, spec in found.items():
        data = ", ".join(choice.title for choice in spec.data)
        shown.add_row(escape(name), escape(spec.title), escape(data), str(len(trials(spec))))
    output().print(shown)


# -- what they share -------------------------------------------------------------------------------


def _rows(results: Path, experiment: str | None) -> list[Row]:
    """Read the rows of one experiment from a store or from records."""
    from dwcl.experiments.journal import read_journal, rows_of
    from dwcl.experiments.store import Store

    if not results.is_file():
        raise FileError(f"There are no results {results}; 'dwcl bench run' makes a store.")
    if results.suffix == ".jsonl":
        rows = rows_of(read_journal(results))
        titles = sorted({row.experiment for row in rows})
        title = _chosen(titles, experiment, results)
        return [row for row in rows if row.experiment == title]
    with Store(results, new=False) as store:
        return store.rows(_chosen(store.experiments(), experiment, results))


def _chosen(titles: list[str], experiment: str | None, results: Path) -> str:
    if experiment in titles:
        return str(experiment)
    if experiment is None and len(titles) == 1:
        return titles[0]
    listed = "; ".join(titles) or "none"
    raise SettingError(
        f"{results} holds these experiments: {listed}. Name one of them with --experiment."
    )


def _shown(summary: Summary) -> Table:
    """Lay a summary out for a terminal: methods in rows, since these are more."""
    from dwcl.experiments.summary import words

    shown = Table(summary.metric, *map(escape, summary.data))
    for label in summary.labels:
        cells = (words(summary.cells.get((name, label)), summary.metric) for name in summary.data)
        shown.add_row(escape(label), *cells)
    return shown


def _tell_failures(rows: list[Row]) -> None:
    for row in rows:
        if row.state == "failed":
            where = f"{row.label} on {row.data}, seed {row.seed}"
            messages().print(escape(f"failed: {where}: {row.error}"), soft_wrap=True)


def _as_plain(summary: Summary) -> dict[str, object]:
    return {
        "metric": summary.metric,
        "cells": [
            {
                "data": data,
                "label": label,
                "mean": cell.mean,
                "std": cell.std,
                "values": {str(seed): value for seed, value in cell.values.items()},
                "failed": cell.failed,
                "open": cell.open,
            }
            for (data, label), cell in summary.cells.items()
        ],
    }


def _show_comparison(found: Comparison, metric: str) -> None:
    console = output()
    ranks = Table("method", f"mean rank, {metric}")
    for label, rank in found.ranks.items():
        ranks.add_row(escape(label), f"{rank:.2f}")
    console.print(ranks)
    console.print(
        f"{_data_sets(len(found.data))}; Friedman {_number(found.friedman)}, "
        f"p {_number(found.p)}; "
        f"critical difference {_number(found.critical_difference)}",
        soft_wrap=True,
    )
    pairs = Table("first", "second", "difference", "95 %", "p", "p (Holm)")
    for pair in found.pairs:
        pairs.add_row(
            escape(pair.first),
            escape(pair.second),
            f"{pair.mean:+.4g}",
            f"{pair.low:+.4g} … {pair.high:+.4g}",
            _number(pair.p),
            _number(pair.corrected),
        )
    console.print(pairs)


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3g}"


def _data_sets(n: int) -> str:
    return f"{n} data set" + ("" if n == 1 else "s")


def _draw(found: Comparison, metric: str, target: Path) -> None:
    from dwcl.files import atomic
    from dwcl.report.ranks import ranks_figure

    if target.suffix not in (".png", ".pdf", ".svg"):
        raise SettingError(f"{target.name} must end in .png, .pdf or .svg.")
    title = f"Mean ranks by {metric} over {_data_sets(len(found.data))}"
    figure = ranks_figure(found.ranks, found.critical_difference, title)
    with atomic(target) as temporary:
        figure.savefig(temporary, dpi=200, format=target.suffix[1:])


class Watch:
    """Shows how far an experiment has come: a bar on a terminal, else a line for each run."""

    def __init__(self, *, silent: bool) -> None:
        self._console = messages()
        self._silent = silent
        self._began = time.monotonic()
        self._bar: Progress | None = None
        if self._console.is_terminal and not silent:
            self._bar = Progress(
                BarColumn(),
                TextColumn("{task.completed}/{task.total} runs"),
                TextColumn("{task.fields[left]}"),
                TextColumn("{task.fields[last]}", markup=False),
                console=self._console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=None, left="", last="")

    def __call__(self, progress: Advance) -> None:
        """Show a step."""
        if self._silent:
            return
        left = (
            "" if progress.seconds_left is None else f"about {_spell(progress.seconds_left)} left"
        )
        last = _spell_last(progress)
        if self._bar is not None:
            self._bar.update(
                self._task, completed=progress.done, total=progress.total, left=left, last=last
            )
        elif last or progress.done < progress.total:
            line = f"{progress.done}/{progress.total} runs {left} {last}"
            self._console.print(" ".join(line.split()), markup=False, soft_wrap=True)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()


def _spell(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _spell_last(progress: Advance) -> str:
    if progress.last is None or progress.outcome is None:
        return ""
    trial, outcome = progress.last, progress.outcome
    score = outcome.facts.get("scores", {}).get("clusters", {}).get("acc")
    end = (
        outcome.error if outcome.state == "failed" else "" if score is None else f"ACC {score:.3f}"
    )
    return f"{trial.column} on {trial.data.title}, seed {trial.seed}: {end or 'done'}"
