"""What may look on while a method trains: history, progress, and the guard against divergence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

from dwcl.errors import TrainingError

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
    """Stop a run whose loss is no longer a finite number, and say where that happened."""

    def __init__(self) -> None:
        self._views: tuple[str, ...] = ()

    def on_start(self, info: RunInfo) -> None:
        """Keep the names of the views for the message."""
        self._views = info.view_names

    def on_record(self, record: Record) -> None:
        """Look at the losses of an epoch."""
        if record.get("event") != "epoch" or math.isfinite(record["loss"]):
            return
        losses = record.get("reconstruction")
        by_view = losses if isinstance(losses, list) else []  # a method may have one for all views
        broken = [
            name
            for name, loss in zip(self._views, by_view, strict=False)
            if not math.isfinite(loss)
        ]
        where = f", first seen in view {', '.join(map(repr, broken))}" if broken else ""
        raise TrainingError(
            f"The loss became {record['loss']} in phase '{record['phase']}', epoch "
            f"{record['epoch']}{where}. A finite number is expected: lower learning_rate, raise "
            "temperature, or choose a scaling that brings the views to like size (standard)."
        )
