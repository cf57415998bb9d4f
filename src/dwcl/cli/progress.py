"""Progress of a fit: a live line on a terminal, plain lines now and then elsewhere."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from dwcl.cli.tables import assessment_line
from dwcl.training.callbacks import Callback, Record, RunInfo

PLAIN_INTERVAL = 10.0
"""Seconds between plain lines."""


def progress_for(console: Console, *, quiet: bool) -> list[Callback]:
    """Choose the display: none, live, or plain."""
    if quiet:
        return []
    return [LiveProgress(console) if console.is_terminal else PlainProgress(console)]


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
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None

    def on_start(self, info: RunInfo) -> None:
        """Show the bar."""
        self._progress.start()
        self._task = self._progress.add_task(
            "", total=info.total_epochs, phase="starting", loss="–", best="–"
        )

    def on_record(self, record: Record) -> None:
        """Advance the bar by an epoch, or show what an assessment found."""
        if self._task is None:
            return
        if record["event"] == "epoch":
            self._progress.update(
                self._task, advance=1, phase=record["phase"], loss=f"{record['loss']:.4f}"
            )
        elif record["event"] == "assessment":
            self._progress.update(self._task, best=record["best_view"])

    def on_end(self) -> None:
        """Take the bar away."""
        self._progress.stop()


class PlainProgress(Callback):
    """Lines for logs: each assessment, each new phase, and an epoch every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._total = 0
        self._done = 0
        self._last = 0.0
        self._phase = ""

    def on_start(self, info: RunInfo) -> None:
        """Keep the number of epochs and start the clock."""
        self._total = info.total_epochs
        self._began = time.monotonic()

    def on_record(self, record: Record) -> None:
        """Print a line where one is due."""
        if record["event"] == "assessment":
            self._console.print(assessment_line(record), markup=False, soft_wrap=True)
        if record["event"] != "epoch":
            return
        self._done += 1
        now = time.monotonic()
        if record["phase"] == self._phase and now - self._last < PLAIN_INTERVAL:
            return
        self._phase, self._last = record["phase"], now
        left = (now - self._began) / self._done * (self._total - self._done)
        self._console.print(
            f"{record['phase']}: epoch {record['epoch']}, loss {record['loss']:.4f}, "
            f"{self._done}/{self._total} epochs, about {left:.0f} s left",
            markup=False,
            soft_wrap=True,
        )
