"""Progress of a fit: a live line on a terminal, plain lines now and then elsewhere."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from dwcl.cli.tables import assessment_line
from dwcl.training.callbacks import Callback, Record, RunInfo

PLAIN_INTERVAL = 10.0
"""Seconds between plain lines."""


def progress_for(console: Console, *, quiet: bool) -> list[Callback]:
    """Choose the display: none, live, or plain."""
    if quiet:
        return []
    return [LiveProgress(console) if console.is_terminal else PlainProgress(console)]


class EarlierLegs(Callback):
    """Keeps what the epochs took that were over before this process went on with them."""

    seconds = 0.0

    def on_start(self, info: RunInfo) -> None:
        """Add their times up."""
        self.seconds = sum(record["seconds"] for record in info.past_epochs)


class LiveProgress(Callback):
    """A bar with phase, epoch, loss, best view and time left."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.fields[phase]:<12}", markup=False),
            BarColumn(),
            TextColumn("epoch {task.completed}/{task.total}"),
            TextColumn("loss {task.fields[loss]}"),
            TextColumn("best view {task.fields[best]}", markup=False),
            TextColumn("left"),
            TextColumn("{task.fields[left]}"),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._clock = _Clock()

    def on_start(self, info: RunInfo) -> None:
        """Show the bar, as far as a run that goes on has come."""
        self._clock.on_start(info)
        self._progress.start()
        self._task = self._progress.add_task(
            "", total=info.total_epochs, phase="starting", loss="–", best="–", left="–"
        )
        self._progress.update(self._task, completed=self._clock.done)
        for record in info.past:
            self._show(self._task, record)

    def on_record(self, record: Record) -> None:
        """Advance the bar by an epoch, or show what an assessment found."""
        if self._task is None:
            return
        self._clock.on_record(record)
        self._show(self._task, record)
        self._progress.update(
            self._task, completed=self._clock.done, left=self._clock.left_in_words()
        )

    def on_end(self) -> None:
        """Take the bar away."""
        self._progress.stop()

    def _show(self, task: TaskID, record: Record) -> None:
        if record["event"] == "epoch":
            self._progress.update(task, phase=record["phase"], loss=f"{record['loss']:.4f}")
        elif record["event"] == "assessment":
            self._progress.update(task, best=record["best_view"])


class PlainProgress(Callback):
    """Lines for logs: each assessment, each new phase, and an epoch every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._clock = _Clock()
        self._last = 0.0
        self._phase = ""

    def on_start(self, info: RunInfo) -> None:
        """Start the clock, and say how far a run that goes on has come."""
        self._clock.on_start(info)
        if self._clock.done:
            self._say(f"going on after epoch {self._clock.done} of {info.total_epochs}")

    def on_record(self, record: Record) -> None:
        """Print a line where one is due."""
        self._clock.on_record(record)
        if record["event"] == "assessment":
            self._say(assessment_line(record))
        if record["event"] != "epoch":
            return
        now = time.monotonic()
        if record["phase"] == self._phase and now - self._last < PLAIN_INTERVAL:
            return
        self._phase, self._last = record["phase"], now
        self._say(
            f"{record['phase']}: epoch {record['epoch']}, loss {record['loss']:.4f}, "
            f"{self._clock.done}/{self._clock.total} epochs, {self._clock.left_in_words()} left"
        )

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, soft_wrap=True)


class _Clock(Callback):
    """Counts epochs, and estimates the time left from those of this leg."""

    def __init__(self) -> None:
        self.total = 0
        self.done = 0

    def on_start(self, info: RunInfo) -> None:
        self.total = info.total_epochs
        self.done = self._before = len(info.past_epochs)
        self._began = time.monotonic()

    def on_record(self, record: Record) -> None:
        self.done += record["event"] == "epoch"

    def left_in_words(self) -> str:
        here = self.done - self._before
        if here == 0:
            return "–"
        return f"about {(time.monotonic() - self._began) / here * (self.total - self.done):.0f} s"
