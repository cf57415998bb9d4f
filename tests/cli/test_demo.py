"""``dwcl demo``: a table and a picture of the embedded digits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dwcl.cli import demo
from dwcl.data import digits

Command = Callable[..., Any]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, small: dict[str, Any]) -> None:
    """Take every twelfth digit and small networks; the demo itself takes a minute."""
    load, gather = digits.load_digits, demo.gather_settings
    monkeypatch.setattr(digits, "load_digits", lambda: load().take(np.arange(0, 1797, 12)))
    monkeypatch.setattr(demo, "gather_settings", lambda *given: gather(*given) | small)


def test_the_demo_shows_a_table_and_draws_a_picture(dwcl: Command) -> None:
    done = dwcl("demo", "--seed", 1)
    assert done.exit_code == 0
    assert "150 handwritten digits in 6 views: pixels (64), gradients (72)" in done.stderr
    for word in ("DWCL, 10 clusters", "ACC", "zernike", "BSV"):
        assert word in done.stdout
    assert done.stdout.endswith("picture in demo/clusters.png\n")
    assert Path("demo/clusters.png").read_bytes().startswith(b"\x89PNG")
    facts = json.loads(Path("demo/run.json").read_text())
    assert facts["seed"] == 1
    assert facts["recipe"] == "quick"
    assert facts["data"]["source"] == "embedded:digits"


def test_it_can_be_repeated_quietly(dwcl: Command) -> None:
    for _ in range(2):
        done = dwcl("demo", "--out", "here", "-q")
        assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert Path("here/clusters.png").is_file()
    assert dwcl("show", "here").exit_code == 0


def test_it_replaces_no_folder_of_something_else(dwcl: Command) -> None:
    Path("demo").mkdir()
    Path("demo/thesis.tex").write_text("years of work")
    done = dwcl("demo", "-q")
    assert done.exit_code == 2
    assert "not a run of dwcl" in done.stderr
    assert [path.name for path in Path("demo").iterdir()] == ["thesis.tex"]
