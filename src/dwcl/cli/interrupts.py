"""Interrupts of a fit: Ctrl-C and a request to end, both with the state saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dwcl.storage.unfinished import Unfinished


class StoppedError(KeyboardInterrupt):
    """An interrupt with what is to be said of it, and the exit status of its signal."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@contextmanager
def interrupts_point_to(unfinished: Unfinished) -> Iterator[None]:
    """Take SIGTERM like Ctrl-C, and say how to go on after either."""
    with _terminable():
        try:
            yield
        except KeyboardInterrupt as interrupt:
            number = getattr(interrupt, "number", signal.SIGINT)
            if unfinished.has_checkpoint:
                message = f"Interrupted. Go on with: dwcl resume {unfinished.run}"
            else:
                message = "Interrupted before there was anything to save."
            raise StoppedError(message, 128 + number) from None


class _TerminatedError(KeyboardInterrupt):
    number = signal.SIGTERM


@contextmanager
def _terminable() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        raise _TerminatedError

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
