"""Where training runs: a thread of its own, with its own arithmetic mode and number of threads.

Two settings must hold while networks are trained and must not leak into the caller's process:

* Denormals off. The moments of dead units decay into subnormal numbers, and each step with them is
  slower by an order of magnitude. The flag belongs to a thread, and the worker threads of OpenMP
  take it from the thread that starts them. Set in the caller's thread, it would come too late for
  workers that run already, and would change the caller's arithmetic. A new thread sets the flag
  first and starts its own team of workers after; both end with the thread.
* The number of threads, which PyTorch keeps for the whole process: it is put back at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import torch

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
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        before = torch.get_num_threads()
        torch.set_flush_denormal(True)
        try:
            if threads is not None:
                torch.set_num_threads(threads)
            results.append(work(stop))
        except BaseException as failure:
            failures.append(failure)
        finally:
            torch.set_num_threads(before)

    thread = threading.Thread(target=run, name="dwcl-training", daemon=True)
    thread.start()
    interrupt: KeyboardInterrupt | None = None
    while thread.is_alive():
        try:
            # A wait with a limit lets the signal handler of the main thread run.
            thread.join(timeout=0.2)
        except KeyboardInterrupt as caught:
            interrupt = caught
            stop.set()
    if interrupt is not None and not results:
        raise interrupt
    if failures:
        raise failures[0]
    if interrupt is not None:
        raise interrupt
    return results[0]
