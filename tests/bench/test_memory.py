"""The measurements of memory run and add up; the figures themselves are not a matter for tests."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import dwcl
from dwcl.bench import memory
from dwcl.bench.memory import memory_now, peak_memory, write_views
from dwcl.cli.app import app
from dwcl.errors import DataError, FileError


@pytest.fixture
def views(tmp_path: Path) -> Path:
    write_views(tmp_path / "views", 40, (6, 5), rows=15)
    return tmp_path / "views"


def test_views_of_the_same_groups_are_written_block_by_block(views: Path) -> None:
    data = dwcl.read(views)
    assert (data.n_samples, data.names, data.widths) == (40, ("view1", "view2"), (6, 5))
    assert all(view.dtype == np.float32 for view in data.arrays)
    labels = np.random.default_rng(0).integers(memory.CLUSTERS, size=40)
    for view in data.arrays:
        dense = np.asarray(view)
        within = [
            dense[labels == c].std(axis=0).mean() for c in range(10) if (labels == c).sum() > 1
        ]
        assert np.mean(within) < dense.std(axis=0).mean()


def test_a_fit_and_its_peak_are_measured(views: Path) -> None:
    found = memory._fit(str(views), "1", "1")
    assert set(found["seconds"]) == {"pretrain", "contrast-1"}
    assert 0 < sum(found["seconds"].values()) < found["seconds_total"]
    assert found["peak"] == peak_memory() >= memory_now() > 10**7


def test_epochs_from_disk_and_from_memory_are_compared(views: Path) -> None:
    found = memory._epochs(str(views), "1", "1")
    assert set(found) == {"in memory", "streamed"}
    assert all(seconds > 0 for seconds in found.values())


def test_what_a_silhouette_adds_is_measured() -> None:
    assert memory._silhouette("200", "1")["extra"] >= 0


def test_trouble_in_another_process_is_told() -> None:
    with pytest.raises(DataError, match=r"The measurement 'fit' failed: .*nowhere"):
        memory._in_process("fit", "/nowhere", "1", "1")


def test_a_place_without_room_is_said_clearly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array_header_1_0", full)
    with pytest.raises(FileError, match=r"No space left on device.*TMPDIR"):
        write_views(tmp_path / "views", 40, (6, 5))


def test_other_systems_are_told_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "status")
    with pytest.raises(FileError, match="Linux only"):
        peak_memory()


@pytest.mark.slow
def test_the_command_measures_and_prints_json() -> None:
    arguments = ["bench", "memory", "--short", "--rounds", "1", "--threads", "1"]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert [figure["reference"] for figure in report["figures"]] == ["in memory"]
    assert sum("target" in fact for fact in report["facts"]) == 3
    assert "peak of a fit" in CliRunner().invoke(app, arguments).stdout


@pytest.mark.slow
def test_a_fit_on_more_data_than_memory_stays_within_its_bound(tmp_path: Path) -> None:
    # 6.3 GB, whose shuffled copy would double them.
    write_views(tmp_path / "views", *memory.CIFAR10)
    found = memory._in_process("fit", str(tmp_path / "views"), "1", "None")
    assert found["peak"] < memory.PEAK_TARGET
