"""``dwcl paper``: every item runs from end to end in quick mode, and is shown and drawn."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from dwcl.cli.app import app
from dwcl.experiments import runner, trial
from dwcl.experiments.paper.items import items
from dwcl.experiments.store import Store

if TYPE_CHECKING:
    from dwcl.data.multiview import MultiView
    from dwcl.experiments.spec import DataChoice

SAMPLES = 90


def paper(*arguments: object, status: int = 0) -> Result:
    result = CliRunner().invoke(app, ["paper", *map(str, arguments)])
    assert result.exit_code == status, result.output
    return result


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keep one store for all items: what two of them share runs once."""
    return tmp_path_factory.mktemp("paper") / "paper.sqlite"


@pytest.fixture
def few_samples(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let every data set be its first samples: what is tried is the way, not the learning."""
    whole = trial.load

    @functools.cache
    def load(choice: DataChoice) -> MultiView:
        return whole(choice).take(np.arange(SAMPLES))

    monkeypatch.setattr(trial, "load", load)
    monkeypatch.setattr(runner, "size_of", lambda _: 0)
    yield
    whole.cache_clear()


@pytest.mark.usefixtures("few_samples")
@pytest.mark.parametrize("name", list(items()))
def test_every_item_runs_in_quick_mode(name: str, store: Path, tmp_path: Path) -> None:
    result = paper("run", name, "--quick", "--store", store, "--json")
    lines = json.loads(result.stdout)["lines"]
    item = items()[name]
    if item.task == "facts":
        assert {line["verdict"] for line in lines} == {"as stated"}
        return
    ours = [line for line in lines if line["n"]]
    if item.task != "losses":
        assert {line["metric"] for line in ours} >= set(item.metrics) - {"weight"}
    assert not [line for line in lines if "failed" in line["remark"]]
    shown = paper("show", name, "--quick", "--store", store)
    assert "the numbers mean nothing" in shown.output
    if item.kind == "figure":
        paper("show", name, "--quick", "--store", store, "--plot", tmp_path / "figure.png")
        assert (tmp_path / "figure.png").stat().st_size > 5000
    else:
        refused = paper(
            "show", name, "--quick", "--store", store, "--plot", tmp_path / "f.png", status=2
        )
        assert "is a table" in refused.output


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, item in items().items() if item.task != "facts"])
def test_every_item_runs_in_quick_mode_on_whole_data(name: str, tmp_path: Path) -> None:
    result = paper("run", name, "--quick", "--store", tmp_path / "p.sqlite", "--json")
    assert not [line for line in json.loads(result.stdout)["lines"] if "failed" in line["remark"]]


def test_items_are_listed_with_their_state(tmp_path: Path) -> None:
    listed = paper("list", "--store", tmp_path / "none.sqlite")
    assert "grid-nuswide" in listed.output
    assert "dwcl data import" in listed.output
    found = json.loads(paper("list", "--store", tmp_path / "none.sqlite", "--json").stdout)
    assert found.keys() == items().keys()
    assert found["comparison"]["state"] == "not run"
    assert found["training"]["state"] == "no runs needed"
    assert "digits" in found["comparison"]["data"]
    assert "dwcl data import dha FILE" in found["comparison"]["missing"]["dha"]
    assert not (tmp_path / "none.sqlite").exists()


def test_missing_data_keep_their_rows(tmp_path: Path) -> None:
    shown = json.loads(paper("show", "comparison", "--store", tmp_path / "n", "--json").stdout)
    cells = {(line["data"], line["row"], line["metric"]): line for line in shown["lines"]}
    assert cells["dha", "dwcl", "acc"]["remark"] == "data are not here"
    assert 0 < cells["dha", "dwcl", "acc"]["paper"] < 1
    assert "dha: its authors share it" in paper("show", "comparison", "--store", "none").output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "comparision"), "Did you mean 'comparison'"),
        (("run", "comparison", "--seeds", "a"), "--seeds has 'a'"),
        (("run", "comparison", "--data", "dha"), "None of the data of 'comparison' are here"),
        (("run", "comparison", "--data", "nothing"), "no data set 'nothing'"),
        (("show", "scatter", "--plot", "x.png", "--store", "none"), "There are no runs"),
    ],
)
def test_bad_input_is_one_message(arguments: tuple[str, ...], message: str) -> None:
    assert message in " ".join(paper(*arguments, status=2).output.split())
    assert not list(Path.cwd().iterdir())


def test_the_name_of_a_picture_says_its_format(tmp_path: Path, store: Path) -> None:
    with Store(store):  # it must be there for the question to come up
        pass
    refused = paper("show", "scatter", "--store", store, "--plot", tmp_path / "x.doc", status=2)
    assert "must end in" in refused.output
