"""A fit that is killed again and again, and gone on with each time, ends in the same bytes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SAME = ("labels.csv", "model.json", "model.safetensors")
PATIENCE = 120.0
"""Seconds after which a process that comes to nothing is an error of its own."""


def history(run: str) -> list[dict[str, Any]]:
    """Read a history without what a clock says."""
    lines = Path(run, "history.jsonl").read_text("utf-8").splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


def next_command(fit: list[str]) -> list[str]:
    """Do what the messages advise: go on where there is something to go on with."""
    return ["resume", "run", "-q"] if Path("run.unfinished/job.json").exists() else fit


def begin(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "dwcl", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def newest_checkpoint() -> str:
    return max((path.name for path in Path("run.unfinished").glob("checkpoint-*.json")), default="")


def kill_at(process: subprocess.Popen[bytes], rng: random.Random) -> bool:
    """Kill it at a random moment; tell whether it was not faster than that.

    One in four is killed while it starts or soon after, the others after a sign of progress: a run
    that is always killed too early would never come to its end.
    """
    before, began = newest_checkpoint(), time.monotonic()
    early = rng.random() < 0.25
    delay = rng.uniform(0, 4 if early else 0.5)
    while not early and newest_checkpoint() == before and process.poll() is None:
        assert time.monotonic() - began < PATIENCE
        time.sleep(0.005)
    try:
        process.wait(delay)
    except subprocess.TimeoutExpired:
        process.kill()
    _, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) in ((0, b""), (-9, b""))
    return process.returncode != 0


def check_kills(
    dwcl: Callable[..., Any], number: int, seed: int, epochs: int, *arguments: Any
) -> None:
    """Kill so many times, over as many runs as that takes; compare each with one in one go."""
    fit = ["fit", *map(str, arguments), "-k", "3", "--seed", "4", "--set", "batch_size=4", "-q"]
    fit += ["--set", f"pretrain_epochs={epochs}", "--set", f"epochs={epochs}"]
    assert dwcl(*fit, "--out", "whole").exit_code == 0
    fit += ["--checkpoint-every", "0.1", "--out", "run"]
    rng, kills = random.Random(seed), 0  # the moments; what a process does by then is not seeded
    while kills < number:
        if Path("run").exists() and not Path("run.unfinished").exists():
            compare_and_remove()
        with begin(next_command(fit)) as process:
            kills += kill_at(process, rng)
    if not Path("run").exists() or Path("run.unfinished").exists():
        assert dwcl(*next_command(fit)).exit_code == 0
    compare_and_remove()


def compare_and_remove() -> None:
    for name in SAME:
        assert Path("run", name).read_bytes() == Path("whole", name).read_bytes(), name
    assert history("run") == history("whole")
    # Nothing is left lying about.
    assert sorted(path.name for path in Path().iterdir()) == ["data.npz", "run", "whole"]
    for path in Path("run").iterdir():
        path.unlink()
    Path("run").rmdir()


def test_killed_twice(dwcl: Callable[..., Any], file: Path, small_options: list[str]) -> None:
    check_kills(dwcl, 2, 1, 60, file, *small_options)


@pytest.mark.slow
def test_killed_at_twenty_random_moments(
    dwcl: Callable[..., Any], file: Path, small_options: list[str]
) -> None:
    check_kills(dwcl, 20, 0, 300, file, *small_options)


def test_killed_between_the_run_folder_and_the_tidying_up(
    dwcl: Callable[..., Any],
    file: Path,
    small_options: list[str],
    monkeypatch: pytest.MonkeyPatch,
    everything: Callable[[], dict[str, bytes | None]],
) -> None:
    """The run is whole, and so is what it came from."""
    with monkeypatch.context() as patch:
        patch.setattr("dwcl.storage.unfinished.Unfinished.discard", lambda _: None)
        assert dwcl("fit", file, "-k", 3, "--out", "run", *small_options).exit_code == 0
    run = {name: content for name, content in everything().items() if "unfinished" not in name}
    result = dwcl("resume", "run", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["run"] == "run"
    assert everything() == run
    assert dwcl("resume", "run").exit_code == 2


def test_a_run_that_another_fit_wrote_in_the_place_is_not_taken_for_the_own(
    dwcl: Callable[..., Any], file: Path, small_options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("dwcl.storage.unfinished.Unfinished.discard", lambda _: None)
        assert dwcl("fit", file, "-k", 3, "--out", "run", *small_options).exit_code == 0
    dwcl("fit", file, "-k", 3, "--seed", 1, "--out", "other", *small_options)
    Path("run").rename("elsewhere")
    Path("other").rename("run")
    result = dwcl("resume", "run")
    assert result.exit_code == 2
    assert "nothing is overwritten" in result.stderr
    assert Path("run.unfinished/job.json").exists()
