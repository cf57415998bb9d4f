"""``dwcl bench``: measurements, and experiments (see ``experiments``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from dwcl.cli import experiments
from dwcl.cli.console import messages, output, print_json
from dwcl.cli.guard import guarded
from dwcl.cli.options import JsonOption, QuietOption, load_data

if TYPE_CHECKING:
    from dwcl.bench.report import Figure, SpeedReport

app = typer.Typer(
    help="Run experiments; measure speed and memory.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def options() -> None:
    """Run experiments; measure speed and memory."""


@app.command()
@guarded
def speed(
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="DATA", help="Views of this shape instead of the usual."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Threads [default: PyTorch's number].")
    ] = None,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Rounds of turns.")] = 5,
    short: Annotated[
        bool, typer.Option("--short", help="Small sizes: whether it runs, not how fast.")
    ] = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Measure training, k-means and silhouette against named references, in turns in one run."""
    from dwcl.bench.clustering import measure_kmeans, measure_silhouette
    from dwcl.bench.report import SpeedReport, circumstances
    from dwcl.bench.speed import measure_mechanisms, measure_training

    report = SpeedReport(circumstances=circumstances(threads))

    def say(what: str) -> None:
        if not (quiet or json):
            messages().print(f"measuring {what} …")

    for name, (n_samples, widths) in _shapes(data, short=short).items():
        say(f"training on the shape of {name}")
        report.figures += measure_training(name, n_samples, widths, rounds=rounds, threads=threads)
    say("contrastive terms by number of views")
    numbers = (2, 4) if short else (2, 4, 8, 16)
    figures, growth = measure_mechanisms(numbers=numbers, rounds=rounds, threads=threads)
    report.figures += figures
    report.facts["exponent of best-other's time over the views (target ≤ 1.15)"] = growth
    say("k-means")
    sizes = (500,) if short else (5_000, 60_000)
    figures, inertia = measure_kmeans(sizes, rounds=min(rounds, 3), threads=threads)
    report.figures += figures
    report.facts["greatest inertia of k-means over scikit-learn's (target ≤ 1.001)"] = inertia
    say("silhouette")
    sizes = (500,) if short else (5_000, 20_000)
    report.figures += measure_silhouette(sizes, rounds=min(rounds, 3), threads=threads)
    if json:
        print_json(report.as_dict())
    else:
        _show(report)


@app.command()
@guarded
def methods(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="METHOD",
            help="Those to measure [default: all that have a plain version].",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="DATA", help="Views of this shape instead of the usual."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Threads [default: PyTorch's number].")
    ] = None,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Rounds of turns.")] = 5,
    short: Annotated[
        bool, typer.Option("--short", help="Small sizes: whether it runs, not how fast.")
    ] = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Measure methods against plain eager versions of themselves, in turns in one run."""
    from dwcl.bench.methods import measure_methods
    from dwcl.bench.plain import get_plain, plain_versions
    from dwcl.bench.report import SpeedReport, circumstances

    chosen = [get_plain(name).method for name in names or plain_versions()]
    report = SpeedReport(circumstances=circumstances(threads))
    for shape, (n_samples, widths) in _shapes(data, short=short).items():
        for method in chosen:
            if not (quiet or json):
                messages().print(f"measuring {method} on the shape of {shape} …")
            report.figures += measure_methods(
                [method], shape, n_samples, widths, rounds=rounds, threads=threads
            )
    if json:
        print_json(report.as_dict())
    else:
        _show(report)


@app.command()
@guarded
def memory(
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Threads [default: PyTorch's number].")
    ] = None,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Rounds of turns.")] = 3,
    short: Annotated[
        bool, typer.Option("--short", help="Small sizes: whether it runs, not how much it takes.")
    ] = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Measure the peak memory of a fit on 6.3 GB of data, which are made in a temporary folder."""
    from dwcl.bench.memory import measure_memory
    from dwcl.bench.report import SpeedReport, circumstances

    if not (quiet or json):
        messages().print("measuring fits in processes of their own …")
    sizes: dict[str, Any] = {}
    if short:
        sizes = {"n_samples": 600, "widths": (40, 30), "fitting": 300, "silhouette": 500}
    figures, facts = measure_memory(**sizes, rounds=rounds, threads=threads)
    report = SpeedReport(figures, facts, circumstances(threads))
    if json:
        print_json(report.as_dict())
    else:
        _show(report)


experiments.register(app)


def _shapes(data: str | None, *, short: bool) -> dict[str, tuple[int, tuple[int, ...]]]:
    """Choose samples and widths to measure on: those of known data sets, or of the user's own."""
    from dwcl.bench.speed import SHAPES

    shapes = dict(SHAPES)
    if data is not None:
        given = load_data(data, None, None, None, progress=False)
        shapes = {data: (given.n_samples, given.widths)}
    if short:
        shapes = {name: (n, widths[:2]) for name, (n, widths) in list(shapes.items())[:1]}
    return shapes


def _show(report: SpeedReport) -> None:
    console = output()
    table = Table("what", "seconds", "reference", "its seconds", "ratio", "target", "")
    for figure in report.figures:
        table.add_row(*_cells(figure))
    console.print(table)
    for fact, value in report.facts.items():
        console.print(f"{fact}: {value:.4f}", soft_wrap=True)
    console.print(
        ", ".join(f"{name} {value}" for name, value in report.circumstances.items()),
        soft_wrap=True,
    )


def _cells(figure: Figure) -> list[str]:
    target = "" if figure.target is None else f"≥ {figure.target:g}"
    verdict = {None: "", True: "reached", False: "missed"}[figure.reached]
    seconds = (f"{figure.seconds:.3f}", figure.reference, f"{figure.reference_seconds:.3f}")
    return [figure.what, *seconds, f"{figure.ratio:.2f}", target, verdict]
