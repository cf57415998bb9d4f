"""What may look on while a method trains: history, progress, and the guard against divergence."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from dwcl.errors import TrainingError

EXPLOSION = 1e6
"""How many times the loss at the start is no longer a matter of learning."""
ADVICE = (
    "expected: lower learning_rate, raise temperature, or choose a scaling that brings the views "
    "to like size (standard)."
)

Record: TypeAlias = dict[str, Any]
"""One line of the history: plain numbers, strings and lists, with its kind under ``"event"``."""


@dataclass(frozen=True)
class RunInfo:
    """What is known before the first step, for a progress display.

    Attributes
    ----------
    method : str
        Name of the method.
    view_names : tuple of str
        The views in their order.
    total_epochs : int
        Epochs of all phases together.
    past : tuple of Record
        The history so far of a run that goes on; nobody is told of these records again.
    """

    method: str
    view_names: tuple[str, ...]
    total_epochs: int
    past: tuple[Record, ...] = ()

    @property
    def past_epochs(self) -> list[Record]:
        """The records of the epochs that are over."""
        return [record for record in self.past if record["event"] == "epoch"]


class Callback:
    """Base of all callbacks; each hook does nothing unless it is overridden."""

    def on_start(self, info: RunInfo) -> None:
        """Before the first step."""

    def on_record(self, record: Record) -> None:
        """After an epoch or another event that went into the history."""

    def on_end(self) -> None:
        """After the last step, and when a run was broken off."""


class Guard(Callback):
    """Stop a run whose loss is no finite number, or has exploded, and say where that happened.

    A loss has exploded if the mean of an epoch is :data:`EXPLOSION` times as large as the loss with
    which a phase began, and is not falling: at least as large as that of the epoch before. Adam
    with a bold learning rate overshoots by some orders of magnitude in its first steps and comes
    back from that, so neither a first epoch nor a falling loss is a reason to stop. What counts is
    the absolute value, since a loss may be negative; and the largest of the beginnings of all
    phases so far and 1, since a phase may begin near zero.
    """

    def __init__(self) -> None:
        self._views: tuple[str, ...] = ()
        self._pairs: list[list[str]] = []
        self._phase = ""
        self._scale = 1.0
        self._before = math.inf
        self._rising = False

    def on_start(self, info: RunInfo) -> None:
        """Keep the names of the views for the message, and take up the past of the run."""
        self._views = info.view_names
        for record in info.past:
            self._take_up(record)

    def on_record(self, record: Record) -> None:
        """Look at the losses of an epoch."""
        self._take_up(record)
        if record.get("event") != "epoch":
            return
        loss = record["loss"]
        if not math.isfinite(loss):
            where = self._place(record, lambda part: not math.isfinite(part))
            raise TrainingError(f"The loss became {loss} {where}. A finite number is {ADVICE}")
        limit = EXPLOSION * self._scale
        if abs(loss) > limit and self._rising:
            where = self._place(record, lambda part: abs(part) > limit / len(self._views))
            raise TrainingError(
                f"The loss exploded {where}: it is {loss:.3g} after {self._scale:.3g} at the "
                f"start, and does not fall. A loss that falls is {ADVICE}"
            )

    def _take_up(self, record: Record) -> None:
        """Keep what the records to come are measured by and named with."""
        if "pairs" in record:  # whatever weighed them, with a judgement of the views or without
            # The pairs that the next phase contrasts, in the order of its losses.
            self._pairs = [pair["views"] for pair in record["pairs"]]
        if record.get("event") != "epoch":
            return
        size = abs(record["loss"])
        if record["phase"] != self._phase:
            self._phase, self._before = record["phase"], math.inf
            self._scale = max(self._scale, abs(record.get("first_loss", size)))
        self._rising, self._before = size >= self._before, size

    def _place(self, record: Record, bad: Callable[[float], bool]) -> str:
        """Say where a loss is bad: phase, epoch, and the views if their losses tell."""
        by_view, by_pair = record.get("reconstruction"), record.get("contrast")
        broken: set[str] = set()
        if isinstance(by_view, list):  # a method may have one loss for all views
            broken |= {n for n, part in zip(self._views, by_view, strict=False) if bad(part)}
        if not broken and isinstance(by_pair, list):
            for names, part in zip(self._pairs, by_pair, strict=False):
                broken |= set(names) if bad(part) else set()
        named = ", ".join(repr(name) for name in self._views if name in broken)
        first = f", first seen in view {named}" if named else ""
        return f"in phase '{record['phase']}', epoch {record['epoch']}{first}"
