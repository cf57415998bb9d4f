"""``dwcl show``: what a run did and found."""

from __future__ import annotations

from rich.markup import escape

from dwcl.cli.console import output, print_json
from dwcl.cli.options import JsonOption, RunArgument
from dwcl.cli.progress import assessment_line
from dwcl.cli.tables import sizes_line, views_table


def show(run: RunArgument, json: JsonOption = False) -> None:
    """Show the views, the course of training and the circumstances of a run."""
    from dwcl.storage.run import read_run

    facts = read_run(run)
    if json:
        print_json(facts)
        return
    console = output()
    data = facts["data"]
    console.print(escape(f"data: {data['source'] or 'arrays'}, {data['n_samples']} samples"))
    for record in facts["history"]:
        if record["event"] == "assessment":
            console.print(escape(assessment_line(record)), soft_wrap=True)
    console.print(views_table(facts))
    console.print(sizes_line(facts["cluster_sizes"]))
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    console.print(
        escape(
            f"seed {facts['seed']}, {facts['precision']} on {facts['device']}, "
            f"{facts['threads']} threads, {facts['seconds_total']:.1f} s; "
            f"dwcl {facts['dwcl']}, {versions}"
        ),
        soft_wrap=True,
    )
