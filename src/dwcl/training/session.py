"""Where training runs: a thread of its own, with its own arithmetic mode and number of threads.

Two settings must hold while networks are trained and must not leak into the caller's process:

* Denormals off. The moments of dead units decay into subnormal numbers, and each step with them is
  slower by an order of magnitude. The flag belongs to a thread, and the worker threads of OpenMP
  take it from the thread that starts them. Set in the caller's thread, it would come too late for
  workers that run already, and would change the caller's arithmetic. A new thread sets the flag
  first and starts its own team of workers after; both end with the thread.
* The number of threads, which PyTorch keeps for the whole process: it is put back at the end, by
  the last of several sessions that run side by side.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch

from dwcl.training.runtime import release_workers

T = TypeVar("T")


class StopRequest(threading.Event):
    """Set when the caller interrupts; the loop looks at it between steps."""


class Interrupted(Exception):  # noqa: N818 - it is a request that was granted, not an error
    """Raised by the loop when it has seen a stop request."""


def in_session(work: Callable[[StopRequest], T], threads: int | None = None) -> T:
    """Run `work` in a training thread and return its result.

    An interrupt (Ctrl-C) reaches the caller's thread: it is passed on as a stop request, the step
    at hand is finished, and then ``KeyboardInterrupt`` is raised again, with nothing left running.
    """
    stop = StopRequest()
    done = threading.Event()
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        torch.set_flush_denormal(True)
        try:
            with _thread_count.kept() as usual:
                torch.set_num_threads(usual if threads is None else threads)
                results.append(work(stop))
        except BaseException as failure:
            failures.append(failure)
        finally:
            done.set()

    release_workers()
    thread = threading.Thread(target=run, name="dwcl-training", daemon=True)
    thread.start()
    interrupt = _wait(done, stop)
    thread.join()
    if interrupt is not None:
        raise interrupt
    if failures:
        raise failures[0]
    return results[0]


def _wait(done: threading.Event, stop: StopRequest) -> KeyboardInterrupt | None:
    """Wait for the end of the work, whatever comes; return the last interrupt that came.

    Not by ``Thread.join``: interrupted, it takes a running thread for an ended one in Python 3.11.
    """
    interrupt = None
    while True:
        try:
            # A wait with a limit lets the signal handler of the main thread run.
            while not done.wait(timeout=0.2):
                pass
        except KeyboardInterrupt as caught:
            interrupt = caught
            stop.set()
        else:
            return interrupt


class _ThreadCount:
    """PyTorch's number of threads, as it was before the first of the sessions that run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions = 0
        self._before = 0

    @contextlib.contextmanager
    def kept(self) -> Iterator[int]:
        """Give the number, and put it back when no session is left.

        A session that did so by itself would take and put back the number of another one.
        """
        with self._lock:
            if not self._sessions:
                self._before = torch.get_num_threads()
            self._sessions += 1
            before = self._before
        try:
            yield before
        finally:
            with self._lock:
                self._sessions -= 1
                if not self._sessions:
                    torch.set_num_threads(self._before)


_thread_count = _ThreadCount()
