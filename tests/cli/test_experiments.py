"""The commands of experiments, from a specification to tables, records and pictures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.experiments.conftest import TINY, write_blobs
from typer.testing import CliRunner, Result

from dwcl.cli.app import app

SHORT = "seeds = [0, 1]", "seeds = [0]"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    blobs = write_blobs(tmp_path / "blobs.npz", 40)
    (tmp_path / "tiny.toml").write_text(TINY.format(data=blobs.as_posix()).replace(*SHORT))
    return tmp_path / "tiny.toml"


def bench(*arguments: object, status: int = 0) -> Result:
    result = CliRunner().invoke(app, ["bench", *map(str, arguments)])
    assert result.exit_code == status, result.output
    return result


@pytest.fixture
def store(spec: Path, tmp_path: Path) -> Path:
    bench("run", spec, "--store", tmp_path / "s.sqlite", "--quiet")
    return tmp_path / "s.sqlite"


def test_a_run_tells_its_table_and_its_progress(spec: Path, tmp_path: Path) -> None:
    result = bench("run", spec, "--store", tmp_path / "s.sqlite")
    assert "concat-ae, balance=variance" in result.output
    assert "3/3 runs" in result.output
    again = bench("run", spec, "--store", tmp_path / "s.sqlite", "--json")
    found = json.loads(again.stdout)
    assert (found["done"], found["failed"], found["open"]) == (3, 0, 0)


def test_what_is_left_is_said(spec: Path, tmp_path: Path) -> None:
    result = bench("run", spec, "--store", tmp_path / "s.sqlite", "--hours", 0)
    assert "3 of 3 runs are still to be done" in " ".join(result.output.split())


def test_failures_are_shown(tmp_path: Path, spec: Path) -> None:
    spec.write_text(
        spec.read_text() + '[[runs]]\nmethod = "mflvc"\nsettings = { learning_rate = 1e30 }\n'
    )
    result = bench("run", spec, "--store", tmp_path / "s.sqlite")
    assert "1 failed" in result.output
    assert "failed: mflvc on blobs, seed 0: TrainingError" in " ".join(result.output.split())


def test_tables(store: Path) -> None:
    assert "blobs" in bench("table", store).output
    assert bench("table", store, "--format", "markdown").stdout.startswith("| data | kmeans |")
    assert r"\begin{tabular}" in bench("table", store, "--format", "latex").stdout
    cells = json.loads(bench("table", store, "--metric", "nmi", "--json").stdout)["cells"]
    assert [cell["label"] for cell in cells][:1] == ["kmeans"]
    assert "no format 'word'" in bench("table", store, "--format", "word", status=2).output


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_a_comparison_with_its_picture(store: Path, tmp_path: Path, ending: str) -> None:
    result = bench("compare", store, "--plot", tmp_path / f"ranks.{ending}")
    assert "mean rank" in result.output
    assert "1 data set;" in result.output
    assert (tmp_path / f"ranks.{ending}").stat().st_size > 1000
    found = json.loads(bench("compare", store, "--json").stdout)
    assert len(found["pairs"]) == 3
    assert "must end in" in bench("compare", store, "--plot", tmp_path / "r.doc", status=2).output


def test_records_go_out_and_in(store: Path, spec: Path, tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    assert "3 records" in bench("export", store, records).output
    tables = [bench("table", source, "--format", "markdown").stdout for source in (store, records)]
    assert tables[0] == tables[1]
    other = tmp_path / "other.sqlite"
    assert "3 of 3 runs were new" in " ".join(
        bench("import", records, "--store", other).output.split()
    )
    assert json.loads(bench("run", spec, "--store", other, "--json").stdout)["done"] == 3
    assert "3 runs in" in bench("export", store, tmp_path / "all.csv").output


def test_what_ships_is_listed() -> None:
    assert "methods" in bench("specs").output
    assert "methods" in json.loads(bench("specs", "--json").stdout)


def test_several_experiments_of_a_store_are_told_apart(store: Path, spec: Path) -> None:
    spec.write_text(spec.read_text().replace('"tiny"', '"second"'))
    bench("run", spec, "--store", store, "--quiet")
    message = " ".join(bench("table", store, status=2).output.split())
    assert "second; tiny. Name one of them with --experiment" in message
    assert "blobs" in bench("table", store, "--experiment", "second").output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "no-such-spec"), "no specification 'no-such-spec'"),
        (("table", "missing.sqlite"), "There are no results missing.sqlite"),
        (("export", "missing.sqlite", "x.csv"), "There are no results"),
        (("import", "missing.jsonl"), "cannot be read"),
    ],
)
def test_bad_input_is_one_message(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in " ".join(bench(*arguments, status=2).output.split())
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".csv"]
