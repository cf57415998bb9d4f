"""Interrupts of a fit end in one message and the status of their signal."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from dwcl.cli.interrupts import StoppedError, interrupts_point_to
from dwcl.storage.unfinished import Unfinished


def test_a_request_to_end_is_an_interrupt_with_a_status_of_its_own(place: Path) -> None:
    unfinished = Unfinished(Path("run"))
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(StoppedError, match="before there was anything to save") as caught:  # noqa: SIM117
        with interrupts_point_to(unfinished):
            os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.status == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_message_names_the_way_on(place: Path) -> None:
    unfinished = Unfinished(Path("run"))
    unfinished.folder.mkdir()
    (unfinished.folder / "checkpoint-000001.json").touch()
    with pytest.raises(StoppedError, match="Go on with: dwcl resume run") as caught:  # noqa: SIM117
        with interrupts_point_to(unfinished):
            raise KeyboardInterrupt
    assert caught.value.status == 130


def test_other_threads_leave_the_signals_alone(place: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def work() -> None:
        with interrupts_point_to(Unfinished(Path("run"))):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
