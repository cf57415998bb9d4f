"""``dwcl demo``: clusters of the embedded digits, with a table and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from dwcl.cli.console import messages, output
from dwcl.cli.fit import gather_settings, run_fit, show_result
from dwcl.cli.job import Job, Source
from dwcl.cli.options import QuietOption

PICTURE = "clusters.png"


def demo(
    out: Annotated[
        Path, typer.Option("--out", metavar="RUN", help="The run folder; replaced if it is there.")
    ] = Path("demo"),
    seed: Annotated[
        int, typer.Option("--seed", min=0, metavar="S", help="The source of all randomness.")
    ] = 0,
    quiet: QuietOption = False,
) -> None:
    """Cluster handwritten digits in a minute or two.

    Several tables describe 1,797 digits that come with dwcl. Their labels serve for the scores
    alone.
    """
    from dwcl.data.digits import load_digits
    from dwcl.report.figures import save_summary
    from dwcl.storage.model import load_model

    data = load_digits()
    if not quiet:
        views = ", ".join(f"{n} ({w})" for n, w in zip(data.names, data.widths, strict=True))
        messages().print(
            f"{data.n_samples:,} handwritten digits in {data.n_views} views: {views}",
            soft_wrap=True,
        )
    settings = gather_settings("dwcl", "quick", [], seed)
    job = Job(Source("catalogue:digits"), 10, "dwcl", settings, recipe="quick")
    facts = run_fit(data, job, out, replace=True, say=not quiet)
    model = load_model(out)
    save_summary(out / PICTURE, model.transform(data), model.labels_, out)
    if not quiet:
        show_result(facts, out)
        output().print(escape(f"picture in {out / PICTURE}"), soft_wrap=True)
