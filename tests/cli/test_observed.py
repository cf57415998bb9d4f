"""``--observed``: a table that tells which samples have which views, known to every command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dwcl import MultiView
from dwcl.cli.job import Job, Source

Command = Callable[..., Any]


@pytest.fixture
def table(place: Path, data: MultiView) -> Path:
    """The first five samples lack the second view; the lines come in another order."""
    lines = [f"s{i},1,{int(i >= 5)}" for i in reversed(range(data.n_samples))]
    (place / "there.csv").write_text("\n".join(["id,view1,view2", *lines]) + "\n")
    return Path("there.csv")


SMALL = {"hidden": 12, "latent": 6, "predictor": 12, "epochs": 3, "prediction_start": 1}


@pytest.fixture
def fit_options() -> list[str]:
    """A method that accepts missing views, with networks under which a fit takes a moment."""
    pairs = [part for name, value in SMALL.items() for part in ("--set", f"{name}={value}")]
    return ["--method", "dcp", "-k", "3", "--set", "threads=1", *pairs]


def test_what_is_missing_is_shown(dwcl: Command, file: Path, table: Path) -> None:
    facts = json.loads(dwcl("data", "show", file, "--observed", table, "--json").stdout)
    assert [view["missing"] for view in facts["views"]] == [0, 5]
    assert facts["layout"][-1] == "missing: view1 0, view2 5 of 40 samples, by there.csv"
    assert "samples without it" in dwcl("data", "show", file, "--observed", table).stdout
    assert "samples without it" not in dwcl("data", "show", file).stdout


def test_a_method_that_needs_all_views_says_so(dwcl: Command, file: Path, table: Path) -> None:
    done = dwcl("fit", file, "-k", 3, "--observed", table, "--out", "run")
    assert done.exit_code == 2
    assert "5 of 40 samples lack view 'view2' (rows of NaN), the first is 's0'" in done.stderr
    assert not Path("run").exists()


def test_fit_predict_and_evaluate_know_the_table(
    dwcl: Command, file: Path, table: Path, fit_options: list[str]
) -> None:
    done = dwcl("fit", file, "--observed", table, "--out", "run", *fit_options)
    assert done.exit_code == 0, done.stderr
    facts = json.loads(Path("run/run.json").read_text())
    assert facts["reading"]["observed"] == str(table.absolute())
    fitted = Path("run/labels.csv").read_text()
    assert dwcl("predict", "run", file, "--observed", table, "-q").stdout == fitted
    # The table belongs to the data of the fit: others are complete unless it is said again.
    whole = dwcl("predict", "run", file, "-q").stdout
    assert whole != fitted
    assert whole.splitlines()[6:] == fitted.splitlines()[6:]
    again = dwcl("evaluate", "run", file, "--observed", table, "--json")
    assert json.loads(again.stdout)["clusters"] == facts["scores"]["clusters"]


def test_a_fit_that_is_gone_on_with_elsewhere_knows_the_table(
    file: Path, table: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = Source(str(file), observed=str(table))
    noted = json.loads(json.dumps(Job(source, 3, "dwcl", {}, None).as_plain()))
    expected = source.load(say=False)
    assert not expected.observed.all()
    monkeypatch.chdir(tmp_path)
    found = Job.from_plain(noted, tmp_path).source.load(say=False)
    assert np.array_equal(found.observed, expected.observed)
    assert found.fingerprint() == expected.fingerprint()
