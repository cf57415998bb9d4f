"""``dwcl resume``: a fit that was broken off goes on, wherever one stands by then."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dwcl.training.callbacks import Callback, Record

OUTPUTS = ("labels.csv", "model.json", "model.safetensors")


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Any]:
    """Make the next fit be interrupted at its n-th record."""

    class Interrupts(Callback):
        def __init__(self, number: int) -> None:
            self.left = number

        def on_record(self, record: Record) -> None:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

    def arm(number: int) -> None:
        monkeypatch.setattr("dwcl.cli.progress.progress_for", lambda *_, **__: [Interrupts(number)])

    return arm


def broken_off(dwcl: Callable[..., Any], breaking: Callable[[int], Any], *arguments: Any) -> None:
    with pytest.MonkeyPatch.context():
        breaking(5)  # in the first contrastive phase: the pre-training is saved
        result = dwcl("fit", *arguments, "--out", "run")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "dwcl: Interrupted. Go on with: dwcl resume run"
    assert not Path("run").exists()


def test_the_result_is_that_of_a_fit_in_one_go(
    dwcl: Callable[..., Any],
    breaking: Callable[[int], Any],
    file: Path,
    small_options: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    arguments = [file, "-k", 3, "--seed", 4, *small_options]
    assert dwcl("fit", *arguments, "--out", "whole").exit_code == 0
    with monkeypatch.context():
        broken_off(dwcl, breaking, *arguments)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)  # the data are found from elsewhere, too
    result = dwcl("resume", "work/run", "--json")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["resumed"] is True
    assert facts["seed"] == 4
    for name in OUTPUTS:
        resumed, whole = (Path("work", run, name).read_bytes() for run in ("run", "whole"))
        assert resumed == whole, name
    assert not Path("work/run.unfinished").exists()


def test_an_unfinished_run_is_neither_overwritten_nor_taken_for_a_finished_one(
    dwcl: Callable[..., Any], breaking: Callable[[int], Any], file: Path, small_options: list[str]
) -> None:
    arguments = [file, "-k", 3, *small_options]
    broken_off(dwcl, breaking, *arguments)
    again = dwcl("fit", *arguments, "--out", "run")
    assert again.exit_code == 2
    assert "Go on with it: dwcl resume run" in again.stderr
    for command in (("show", "run"), ("predict", "run", file)):
        result = dwcl(*command)
        assert result.exit_code == 2
        assert "dwcl resume run" in result.stderr


def test_other_data_under_the_same_name_are_refused(
    dwcl: Callable[..., Any], breaking: Callable[[int], Any], file: Path, small_options: list[str]
) -> None:
    from dwcl import make_multiview
    from dwcl.data.writers import write_npz

    broken_off(dwcl, breaking, file, "-k", 3, *small_options)
    write_npz(make_multiview(40, 3, widths=(6, 5), random_state=9), file)
    result = dwcl("resume", "run")
    assert result.exit_code == 2
    assert "belong to another run: data differ" in result.stderr


@pytest.mark.parametrize("harm", ["newest", "all"])
def test_damaged_checkpoints_are_told(
    dwcl: Callable[..., Any],
    breaking: Callable[[int], Any],
    file: Path,
    small_options: list[str],
    monkeypatch: pytest.MonkeyPatch,
    place: Path,
    harm: str,
) -> None:
    arguments = [file, "-k", 3, "--checkpoint-every", 0, *small_options]
    broken_off(dwcl, breaking, *arguments)
    monkeypatch.undo()
    monkeypatch.chdir(place)
    found = sorted(Path("run.unfinished").glob("checkpoint-*.safetensors"))
    assert len(found) == 2
    for path in found if harm == "all" else found[1:]:
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    result = dwcl("resume", "run", "-q")
    if harm == "newest":
        assert result.exit_code == 0
        assert "is damaged (its tensors have changed" in result.stderr
        assert "the one before it is used." in result.stderr
        return
    assert result.exit_code == 2
    assert "No checkpoint in run.unfinished is whole" in result.stderr
    assert "give --force to 'dwcl fit'" in result.stderr
    assert not Path("run").exists()
    assert sorted(Path("run.unfinished").glob("checkpoint-*.safetensors")) == found
    assert dwcl("fit", *arguments, "--out", "run", "-q").exit_code == 2
    assert dwcl("fit", *arguments, "--out", "run", "-q", "--force").exit_code == 0


def test_nothing_to_go_on_with_is_told(dwcl: Callable[..., Any]) -> None:
    result = dwcl("resume", "nowhere")
    assert result.exit_code == 2
    assert "There is no unfinished run nowhere" in result.stderr


def test_bad_data_leave_no_unfinished_run(
    dwcl: Callable[..., Any], place: Path, small_options: list[str]
) -> None:
    (place / "bad.csv").write_text("a,b\n1,2\n3,nan\n4,5\n")
    result = dwcl("fit", "bad.csv", "-k", 2, "--out", "run", *small_options)
    assert result.exit_code == 2
    assert [path.name for path in place.iterdir()] == ["bad.csv"]
