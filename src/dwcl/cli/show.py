"""``dwcl show``: what a run did and found."""

from __future__ import annotations

from rich.markup import escape

from dwcl.cli.console import output, print_json
from dwcl.cli.options import JsonOption, RunArgument
from dwcl.cli.tables import assessment_line, sizes_line, views_table


def show(run: RunArgument, json: JsonOption = False) -> None:
    """Show what a run did and found."""
    from dwcl.storage.run import read_run

    facts = read_run(run)
    if json:
        print_json(facts)
        return
    console = output()
    data = facts["data"]
    console.print(
        escape(f"data: {data['source'] or 'arrays'}, {data['n_samples']} samples"), soft_wrap=True
    )
    for record in facts["history"]:
        if record["event"] == "assessment":
            console.print(escape(assessment_line(record)), soft_wrap=True)
    console.print(views_table(facts))
    console.print(sizes_line(facts["cluster_sizes"]), soft_wrap=True)
    seconds = f", {facts['seconds_total']:.1f} s" if "seconds_total" in facts else ""
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    console.print(
        escape(
            f"seed {facts['seed']}, {facts['precision']} on {facts['device']}, "
            f"threads {facts['threads']}{seconds}; "
            f"dwcl {facts['dwcl']}, {versions}"
        ),
        soft_wrap=True,
    )
