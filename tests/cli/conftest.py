"""A command line to try things on: in a folder of its own, on small data, with small networks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
from typer.testing import CliRunner

from dwcl import MultiView, make_multiview
from dwcl.cli.app import app
from dwcl.data.writers import write_npz

SMALL = {
    "encoder": 16,
    "latent": 8,
    "embedding": 6,
    "pretrain_epochs": 3,
    "iterations": 1,
    "epochs": 2,
    "n_init": 2,
    "learning_rate": 0.003,
    "precision": "fp32",
    "threads": 1,
}
N, WIDTHS, K = 40, (6, 5), 3


class Result(Protocol):
    """What a command left behind."""

    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture
def small_options() -> list[str]:
    """Options under which a fit takes a moment."""
    return [part for name, value in SMALL.items() for part in ("--set", f"{name}={value}")]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and one for data sets; no terminal's habits from outside."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DWCL_DATA", str(tmp_path / "home"))
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def dwcl() -> Callable[..., Result]:
    """Run a command and return its status and what it printed; an escaped error fails the test."""

    def run(*args: Any) -> Result:
        return CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)

    return run


@pytest.fixture(scope="session")
def data() -> MultiView:
    """Samples with names and classes."""
    made = make_multiview(N, K, widths=WIDTHS, noise=0.1, random_state=0)
    return MultiView(made.views, sample_ids=[f"s{i}" for i in range(N)], labels=made.labels)


@pytest.fixture
def file(place: Path, data: MultiView) -> Path:
    """The samples in a file, named as a command line would."""
    write_npz(data, place / "data.npz")
    return Path("data.npz")


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory, data: MultiView) -> Path:
    """A run folder, made once."""
    folder = tmp_path_factory.mktemp("fitted")
    write_npz(data, folder / "data.npz")
    before = Path.cwd()
    os.chdir(folder)
    try:
        options = [part for name, value in SMALL.items() for part in ("--set", f"{name}={value}")]
        done = CliRunner().invoke(app, ["fit", "data.npz", "-k", "3", "--out", "run", *options])
    finally:
        os.chdir(before)
    assert done.exit_code == 0, done.output
    return folder / "run"


@pytest.fixture
def run(fitted: Path, place: Path) -> Path:
    """A copy of the run folder, to be harmed at will."""
    shutil.copytree(fitted, place / "run")
    return Path("run")


def listing(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder with its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def everything(tmp_path: Path) -> Callable[[], dict[str, bytes | None]]:
    """Look at all files of the test, the folder of data sets included."""
    return lambda: listing(tmp_path)
