"""Progress: a live line on a terminal, plain lines elsewhere, nothing if so wished."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from dwcl.cli import progress
from dwcl.cli.progress import EarlierLegs, LiveProgress, PlainProgress, progress_for
from dwcl.training.callbacks import Callback, Record, RunInfo

INFO = RunInfo("dwcl", ("a", "rna[log]"), total_epochs=4)


def epoch(phase: str, number: int, loss: float, seconds: float = 1.0) -> Record:
    return {
        "event": "epoch", "phase": phase, "epoch": number, "loss": loss, "seconds": seconds,
    }  # fmt: skip


ASSESSMENT: Record = {
    "event": "assessment", "iteration": 0, "best_view": "rna[log]", "quality": [0.25, 0.5],
}  # fmt: skip
RECORDS = [
    epoch("pretrain", 1, 2.0),
    epoch("pretrain", 2, 1.0),
    ASSESSMENT,
    epoch("contrast-1", 1, 30.5),
    epoch("contrast-1", 2, 30.25),
]


def pipe() -> Console:
    return Console(file=StringIO(), width=100)


def terminal() -> Console:
    return Console(file=StringIO(), force_terminal=True, width=120, legacy_windows=False)


def written(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def follow(callback: Callback, records: list[Record]) -> None:
    callback.on_start(INFO)
    for record in records:
        callback.on_record(record)
    callback.on_end()


def test_the_display_fits_the_place() -> None:
    assert progress_for(terminal(), quiet=True) == []
    assert isinstance(progress_for(terminal(), quiet=False)[0], LiveProgress)
    assert isinstance(progress_for(pipe(), quiet=False)[0], PlainProgress)


def test_plain_lines_for_each_phase_and_assessment() -> None:
    console = pipe()
    follow(PlainProgress(console), RECORDS)
    assert written(console).splitlines() == [
        "pretrain: epoch 1, loss 2.0000, 1/4 epochs, about 0 s left",
        "after iteration 0: best view rna[log], qualities 0.250 0.500",
        "contrast-1: epoch 1, loss 30.5000, 3/4 epochs, about 0 s left",
    ]


def test_plain_lines_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    # A look at the clock at the start, and two for each line: is one due, and how much is left?
    times = iter([100.0, 103.0, 103.0, 112.9, 113.1, 113.1, 114.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))
    console = pipe()
    follow(PlainProgress(console), [epoch("pretrain", number, 1.0) for number in (1, 2, 3, 4)])
    assert [line.split(", ", 2)[0] for line in written(console).splitlines()] == [
        "pretrain: epoch 1",
        "pretrain: epoch 3",
    ]
    assert "3/4 epochs, about 4 s left" in written(console)  # 13.1 s for three


def test_the_live_line_shows_phase_epoch_loss_and_best_view() -> None:
    console = terminal()
    live = LiveProgress(console)
    live.on_start(INFO)
    for record in RECORDS[:-1]:
        live.on_record(record)
    live._progress.refresh()
    last = written(console).rsplit("\r", 1)[-1]
    for word in ("contrast-1", "epoch 3/4", "loss 30.5000", "best view rna[log]", "left"):
        assert word in last
    live.on_end()
    assert live._progress.finished is False
    assert not live._progress.live.is_started


def test_a_run_that_goes_on_says_how_far_it_had_come(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([100.0, 102.0, 102.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(times))
    console = pipe()
    plain = PlainProgress(console)
    plain.on_start(replace(INFO, past=tuple(RECORDS[:3])))
    plain.on_record(RECORDS[3])
    assert written(console).splitlines() == [
        "going on after epoch 2 of 4",
        # One epoch took 2 s in this process; what the earlier ones took has no part in it.
        "contrast-1: epoch 1, loss 30.5000, 3/4 epochs, about 2 s left",
    ]


def test_the_live_line_goes_on_where_it_was() -> None:
    console = terminal()
    live = LiveProgress(console)
    live.on_start(replace(INFO, past=tuple(RECORDS[:3])))
    live._progress.refresh()
    last = written(console).rsplit("\r", 1)[-1]
    for word in ("pretrain", "epoch 2/4", "loss 1.0000", "best view rna[log]"):
        assert word in last
    live.on_end()


def test_the_time_of_earlier_legs_is_kept() -> None:
    legs = EarlierLegs()
    legs.on_start(INFO)
    assert legs.seconds == 0
    legs.on_start(replace(INFO, past=(epoch("a", 1, 1.0, 2.5), ASSESSMENT, epoch("a", 2, 1.0, 3))))
    assert legs.seconds == 5.5


def test_the_live_line_goes_away_when_a_run_is_broken_off() -> None:
    console = terminal()
    live = LiveProgress(console)
    live.on_start(INFO)
    live.on_end()
    assert not live._progress.live.is_started
    assert written(console).endswith("\x1b[2K")  # the line is cleared


def test_records_before_the_start_are_no_trouble() -> None:
    live = LiveProgress(terminal())
    live.on_record(RECORDS[0])
    live.on_end()
