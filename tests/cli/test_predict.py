"""``dwcl predict``: new samples go to the clusters of a run."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dwcl import MultiView, load_model
from dwcl.data.writers import write_npz

Command = Callable[..., Any]


@pytest.fixture
def new(place: Path, data: MultiView) -> Path:
    """Seven samples near those of the fit, without labels."""
    part = data.take(np.arange(3, 10))
    views = {name: np.asarray(view) + 0.01 for name, view in part.views.items()}
    write_npz(MultiView(views, sample_ids=[f"new{i}" for i in range(7)]), place / "new.npz")
    return Path("new.npz")


def test_known_samples_get_their_clusters_again(dwcl: Command, run: Path, file: Path) -> None:
    done = dwcl("predict", run, file)
    assert done.exit_code == 0
    assert done.stdout == (run / "labels.csv").read_text()
    assert done.stderr.splitlines()[0] == "views: view1, view2, 6 + 5 features"
    assert dwcl("predict", run, file, "-q").stderr == ""


def test_new_samples_get_the_clusters_of_the_model(dwcl: Command, run: Path, new: Path) -> None:
    done = dwcl("predict", run, new)
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["sample"] for row in rows] == [f"new{i}" for i in range(7)]
    clusters = [int(row["cluster"]) for row in rows]
    with np.load(new) as arrays:
        views = {"view1": arrays["view1"], "view2": arrays["view2"]}
    assert_array_equal(clusters, load_model(run).predict(views))
    fitted = list(csv.DictReader((run / "labels.csv").read_text().splitlines()))
    assert clusters == [int(row["cluster"]) for row in fitted[3:10]]


def test_json_is_one_object(dwcl: Command, run: Path, new: Path) -> None:
    done = dwcl("predict", run, new, "--json")
    found = json.loads(done.stdout)
    assert found["n_samples"] == len(found["labels"]) == sum(found["cluster_sizes"]) == 7
    assert_array_equal(np.bincount(found["labels"], minlength=3), found["cluster_sizes"])
    assert found["run"] == "run"
    assert found["samples"] == [f"new{i}" for i in range(7)]
    assert all(np.less_equal(found["distance"], found["next_distance"]))
    assert found["layout"][0] == "views: view1, view2, 6 + 5 features"
    assert done.stderr == ""


def test_the_table_goes_to_a_file(dwcl: Command, run: Path, new: Path) -> None:
    table = dwcl("predict", run, new).stdout
    done = dwcl("predict", run, new, "--out", "new[1].csv")
    assert Path("new[1].csv").read_text() == table
    assert done.stdout.startswith("7 samples; sizes of the clusters: ")
    assert done.stdout.endswith("; labels in new[1].csv\n")
    quiet = dwcl("predict", run, new, "--out", "quiet.csv", "-q")
    assert (quiet.stdout, quiet.stderr) == ("", "")
    assert Path("quiet.csv").read_text() == table


def test_no_file_is_overwritten(dwcl: Command, run: Path, new: Path) -> None:
    Path("mine.csv").write_text("mine")
    done = dwcl("predict", run, new, "--out", "mine.csv")
    assert done.exit_code == 2
    assert "mine.csv is there already; nothing is overwritten" in done.stderr
    assert Path("mine.csv").read_text() == "mine"


def test_views_are_found_by_their_names(
    dwcl: Command, run: Path, data: MultiView, file: Path, place: Path
) -> None:
    write_npz(data.select(["view2", "view1"]), place / "turned.npz")
    assert dwcl("predict", run, "turned.npz").stdout == dwcl("predict", run, file).stdout


def table(data: MultiView, name: str, **columns: list[str]) -> Path:
    """Write both views side by side, with columns of words before them."""
    views = [(f"{v}_{i}", data[v][:, i]) for v in data.names for i in range(data[v].shape[1])]
    written = {**columns, **{title: list(map(str, values)) for title, values in views}}
    lines = [",".join(written), *(",".join(row) for row in zip(*written.values(), strict=True))]
    Path(name).write_text("\n".join(lines) + "\n")
    return Path(name)


def test_data_are_read_as_those_of_the_fit(
    dwcl: Command, data: MultiView, place: Path, small_options: list[str]
) -> None:
    names = [f"s{i}" for i in range(data.n_samples)]
    kinds = [f"k{label}" for label in np.asarray(data.labels)]
    told = ("--id-column", "who", "--labels", "kind")
    fitted = table(data, "fit.csv", who=names, kind=kinds)
    assert dwcl("fit", fitted, "-k", 3, "--out", "run", *told, *small_options).exit_code == 0
    expected = Path("run/labels.csv").read_text()
    assert dwcl("predict", "run", fitted, "-q").stdout == expected
    # New samples have no classes yet.
    assert dwcl("predict", "run", table(data, "new.csv", who=names), "-q").stdout == expected
    scores = json.loads(dwcl("evaluate", "run", fitted, "--json").stdout)
    assert scores["clusters"] == json.loads(Path("run/run.json").read_text())["scores"]["clusters"]


def test_an_option_wins_over_the_fit_s_and_is_not_left_out_in_silence(
    dwcl: Command, data: MultiView, place: Path, small_options: list[str]
) -> None:
    names = [f"s{i}" for i in range(data.n_samples)]
    fitted = table(data, "fit.csv", who=names)
    dwcl("fit", fitted, "-k", 3, "--out", "run", "--id-column", "who", *small_options)
    other = table(data, "other.csv", person=[f"p{i}" for i in range(data.n_samples)])
    refused = dwcl("predict", "run", other)
    assert refused.exit_code == 2
    assert "'who'" in refused.stderr
    for option in ("person", ""):  # stated, or found out
        done = dwcl("predict", "run", other, "--id-column", option, "-q")
        assert done.stdout.splitlines()[1].startswith("p0,")
    missing = dwcl("predict", "run", other, "--id-column", "", "--labels", "kind")
    assert missing.exit_code == 2
    assert missing.stderr.splitlines()[-1].startswith("dwcl: labels='kind'")


def test_a_terminal_without_the_letters_of_an_id_gets_a_message(
    dwcl: Command, run: Path, data: MultiView, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = data.take(range(3))
    write_npz(MultiView(part.views, sample_ids=["ä", "b", "c"]), place / "new.npz")
    code = "import sys; from dwcl.cli import main; sys.argv[0] = 'dwcl'; main()"
    done = subprocess.run(
        (sys.executable, "-c", code, "predict", "run", "new.npz"),
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert done.returncode == 2
    assert b"Write the table to a file with --out" in done.stderr
    assert done.stdout == b""
