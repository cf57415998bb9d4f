"""``dwcl show``: a run as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from dwcl import DWCL, MultiView
from dwcl.storage.run import write_run

Command = Callable[..., Any]


def test_a_run_is_shown_with_its_circumstances(dwcl: Command, run: Path) -> None:
    done = dwcl("show", run)
    assert done.exit_code == 0
    assert done.stderr == ""
    facts = json.loads((run / "run.json").read_text())
    lines = done.stdout.splitlines()
    assert lines[0] == "data: data.npz, 40 samples"
    assert lines[1].startswith("after iteration 0: best view view")
    assert lines[2].startswith("after iteration 1: best view view")
    best = facts["best_view"]
    row = next(line for line in lines if "(best)" in line)
    assert best in row
    assert f"{facts['view_quality'][best]:.3f}" in row
    assert lines[-1].startswith("seed 0, fp32 on cpu, threads 1, ")
    assert f"torch {torch.__version__}" in lines[-1]


def test_json_is_one_object_with_the_history(dwcl: Command, run: Path) -> None:
    found = json.loads(dwcl("show", run, "--json").stdout)
    history = found.pop("history")
    assert found == json.loads((run / "run.json").read_text())
    assert [record["event"] for record in history] == [
        "epoch", "epoch", "epoch", "assessment", "epoch", "epoch", "assessment",
    ]  # fmt: skip


def test_a_run_written_from_python_is_shown_too(
    dwcl: Command, data: MultiView, place: Path, small: dict[str, Any]
) -> None:
    bare = MultiView(data.views)
    write_run(Path("mine"), DWCL(2, **small, random_state=0).fit(bare), bare, facts={})
    done = dwcl("show", "mine")
    assert done.exit_code == 0
    assert done.stdout.startswith("data: arrays, 40 samples")
