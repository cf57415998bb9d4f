"""``dwcl paper``: the paper's tables and figures, made anew and set beside its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from dwcl.cli.console import messages, output, print_json
from dwcl.cli.experiments import Watch
from dwcl.cli.guard import guarded
from dwcl.cli.options import JsonOption, QuietOption
from dwcl.errors import SettingError

if TYPE_CHECKING:
    from dwcl.experiments.paper.items import Item
    from dwcl.experiments.paper.verdicts import Line
    from dwcl.experiments.store import Row, Store

app = typer.Typer(
    help="Make the paper's tables and figures anew, beside its numbers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

ItemArgument = Annotated[
    str, typer.Argument(metavar="ITEM", help="See 'dwcl paper list'.", show_default=False)
]
StoreOption = Annotated[
    Path, typer.Option("--store", metavar="FILE", help="The SQLite file with the results.")
]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="Narrow networks, few epochs: only whether it runs.")
]
RecipesOption = Annotated[
    bool,
    typer.Option("--recipes", help="Published settings by data set, found with labels in sight."),
]
DEFAULT_STORE = Path("paper.sqlite")


@app.command("list")
@guarded
def list_(store: StoreOption = DEFAULT_STORE, json: JsonOption = False) -> None:
    """List the tables and figures, their data, and how far their runs have come."""
    from dwcl.experiments.paper.items import items
    from dwcl.experiments.paper.making import chosen_data, missing

    found: dict[str, dict[str, Any]] = {}
    for item in items().values():
        names = chosen_data(item) if item.task != "facts" else []
        absent = missing(names) if item.task != "time" else {}
        found[item.name] = {
            "kind": item.kind,
            "label": item.label,
            "title": item.title,
            "data": [name for name in names if name not in absent],
            "missing": absent,
            "state": _state(item, store),
        }
    if json:
        print_json(found)
        return
    table = Table("item", "", "what", "data that are here", "state")
    for name, facts in found.items():
        data = ", ".join(facts["data"]) or "–"
        table.add_row(name, facts["kind"], escape(facts["title"]), data, facts["state"])
    output().print(table)
    lacking = {name: how for facts in found.values() for name, how in facts["missing"].items()}
    for name, how in lacking.items():
        messages().print(escape(f"{name}: {how}"), soft_wrap=True)


@app.command()
@guarded
def run(
    item: ItemArgument,
    store: StoreOption = DEFAULT_STORE,
    quick: QuickOption = False,
    recipes: RecipesOption = False,
    data: Annotated[
        str | None, typer.Option("--data", metavar="A,B,…", help="These data sets alone.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="0,1,…", help="These seeds alone.")
    ] = None,
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
    """Run what a table or figure needs on the data that are here; nothing is run twice."""
    from dwcl.experiments.paper.items import item as find_item
    from dwcl.experiments.paper.making import experiment_of, trials_of
    from dwcl.experiments.runner import run_trials
    from dwcl.experiments.store import Store

    wanted = find_item(item)
    trials = trials_of(
        wanted,
        quick=quick,
        recipes=recipes,
        asked=_names(data),
        seeds=[_seed(text) for text in _names(seeds)],
    )
    with Store(store) as opened:
        title = experiment_of(wanted, quick=quick, recipes=recipes)
        watch = Watch(silent=quiet or json)
        try:
            run_trials(title, trials, opened, jobs=jobs, hours=hours, retry=retry, watch=watch)
        finally:
            watch.close()
        rows = opened.rows(title)
    _show(wanted, rows, quick=quick, json=json, quiet=quiet)


@app.command()
@guarded
def show(
    item: ItemArgument,
    store: StoreOption = DEFAULT_STORE,
    quick: QuickOption = False,
    recipes: RecipesOption = False,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw a figure (.png, .pdf or .svg)."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show the paper's numbers, ours, the difference and a verdict; or draw the figure."""
    from dwcl.experiments.paper.items import item as find_item
    from dwcl.experiments.paper.making import experiment_of
    from dwcl.experiments.store import Store

    wanted = find_item(item)
    rows: list[Row] = []
    if store.is_file():
        title = experiment_of(wanted, quick=quick, recipes=recipes)
        with Store(store, new=False) as opened:
            rows = opened.rows(title)
            if plot is not None:
                _draw(wanted, rows, opened, plot)
    elif plot is not None:
        raise SettingError(f"There are no runs of '{item}' yet: dwcl paper run {item}.")
    _show(wanted, rows, quick=quick, json=json, quiet=False)


def _names(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise SettingError(f"--seeds has '{text}'; whole numbers with commas are expected.")
    return int(text)


def _state(item: Item, store: Path) -> str:
    """Say how far the runs of an item have come."""
    from dwcl.experiments.paper.making import experiment_of
    from dwcl.experiments.store import Store

    if item.task == "facts":
        return "no runs needed"
    rows: list[Row] = []
    if store.is_file():
        with Store(store, new=False) as opened:
            rows = opened.rows(experiment_of(item))
    if not rows:
        return "not run"
    states = [row.state for row in rows]
    failed = f", {states.count('failed')} failed" if "failed" in states else ""
    return f"{states.count('done')} of {len(states)} runs{failed}"


def _lines(item: Item, rows: list[Row]) -> list[Line]:
    from dwcl.experiments.paper.verdicts import improvements, lines_of, ratios

    lines = lines_of(item, rows)
    if item.task == "views":
        return improvements(item, lines)
    if item.task == "time":
        return [*lines, *ratios(lines, "dwcl")]
    return lines


def _show(item: Item, rows: list[Row], *, quick: bool, json: bool, quiet: bool) -> None:
    from dwcl.experiments.paper.verdicts import absent_data, words

    lines = _lines(item, rows)
    if json:
        print_json(
            {
                "item": item.name,
                "lines": [
                    {
                        "data": line.data,
                        "row": line.row,
                        "metric": line.metric,
                        "paper": None if line.paper is None else line.paper.amount,
                        "mean": line.mean,
                        "std": line.std,
                        "n": len(line.values),
                        "difference": line.difference,
                        "verdict": line.verdict,
                        "remark": line.remark,
                    }
                    for line in lines
                ],
            }
        )
        return
    if quiet:
        return
    table = Table("data", "row", "metric", "paper", "here (n)", "difference", "verdict")
    for line in lines:
        paper, ours, difference, verdict = words(line)
        cells = (line.data, line.row, line.metric, paper, ours, difference, verdict)
        table.add_row(*map(escape, cells))
    console = output()
    console.print(escape(item.title))
    console.print(table)
    for note in (item.note, "Quick mode: the numbers mean nothing." if quick else ""):
        if note:
            console.print(escape(note), soft_wrap=True)
    for name, how in absent_data(item).items():
        messages().print(escape(f"{name}: {how}"), soft_wrap=True)


def _draw(item: Item, rows: list[Row], store: Store, target: Path) -> None:
    """Write the figure; one for each data set gets the name of the data set into its own."""
    from dwcl.experiments.paper.drawing import figures_of
    from dwcl.files import atomic

    if target.suffix not in (".png", ".pdf", ".svg"):
        raise SettingError(f"{target.name} must end in .png, .pdf or .svg.")
    figures = figures_of(item, rows, store)
    for name, figure in figures.items():
        path = target if len(figures) == 1 else target.with_stem(f"{target.stem}-{name}")
        with atomic(path) as temporary:
            figure.savefig(temporary, dpi=200, format=target.suffix[1:])
        messages().print(escape(f"drawn: {path}"), soft_wrap=True)
