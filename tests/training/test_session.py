from __future__ import annotations

import _thread
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from dwcl.training import in_session
from dwcl.training.session import Interrupted, StopRequest

# Large enough that PyTorch shares an elementwise product among its threads.
N = 1 << 21


def denormals() -> Tensor:
    """Products of 1e-20 and 1e-20, below the least normal float32 of 1.2e-38."""
    tiny = torch.full((N,), 1e-20)
    return tiny * tiny


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def in_the_training_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "dwcl-training"]


# -- arithmetic ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("threads", [None, 1, 2])
def test_denormals_are_off_in_all_worker_threads(threads: int | None) -> None:
    assert denormals().count_nonzero() == N  # and the team of the caller's thread runs already
    assert in_session(lambda _: int(denormals().count_nonzero()), threads) == 0
    assert denormals().count_nonzero() == N


@pytest.mark.usefixtures("two_threads")
def test_moments_of_an_optimiser_decay_to_zero() -> None:
    def second_moment(_: StopRequest) -> Tensor:
        parameter = torch.zeros(N, requires_grad=True)
        adam = torch.optim.Adam([parameter], fused=True)
        for gradient in (1e-19, 0.0):
            parameter.grad = torch.full((N,), gradient)
            adam.step()
        moment: Tensor = adam.state[parameter]["exp_avg_sq"]
        return moment

    assert in_session(second_moment, 2).count_nonzero() == 0
    assert second_moment(StopRequest()).count_nonzero() == N


@pytest.mark.usefixtures("two_threads")
def test_the_callers_arithmetic_is_unchanged_by_a_failure() -> None:
    def work(_: StopRequest) -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        in_session(work, 1)
    assert denormals().count_nonzero() == N


# -- number of threads -----------------------------------------------------------------------------


def number_in_a_new_thread() -> int:
    """The number that PyTorch gives to threads that have not used it yet."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(("threads", "expected"), [(None, 2), (1, 1), (2, 2), (3, 3)])
def test_the_number_of_threads_holds_inside_alone(threads: int | None, expected: int) -> None:
    assert in_session(lambda _: torch.get_num_threads(), threads) == expected
    assert torch.get_num_threads() == 2
    assert number_in_a_new_thread() == 2


@pytest.mark.usefixtures("two_threads")
def test_the_number_of_threads_comes_back_after_a_failure() -> None:
    def work(_: StopRequest) -> None:
        assert torch.get_num_threads() == 1
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        in_session(work, 1)
    assert torch.get_num_threads() == 2
    assert number_in_a_new_thread() == 2


@pytest.mark.usefixtures("two_threads")
def test_sessions_side_by_side_do_not_keep_each_others_number() -> None:
    first_is_in, second_is_in = threading.Event(), threading.Event()
    numbers: list[int] = []

    def first(_: StopRequest) -> None:
        first_is_in.set()
        assert second_is_in.wait(10)

    def second(_: StopRequest) -> None:
        second_is_in.set()
        outer.join(10)  # the first one ends, the second goes on
        numbers.append(torch.get_num_threads())

    outer = threading.Thread(target=in_session, args=(first, 1))
    outer.start()
    assert first_is_in.wait(10)
    in_session(second)
    assert numbers == [2]
    assert number_in_a_new_thread() == 2


# -- results and failures --------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, 0, "text", [1, 2]])
def test_the_result_comes_back(value: object) -> None:
    assert in_session(lambda _: value) is value


def test_the_work_has_a_thread_of_its_own_that_ends() -> None:
    name, thread = in_session(lambda _: (threading.current_thread().name, threading.get_ident()))
    assert name == "dwcl-training"
    assert thread != threading.get_ident()
    assert not in_the_training_threads()


@pytest.mark.parametrize("failure", [ValueError("text"), SystemExit(3), KeyError("k")])
def test_a_failure_comes_back_as_it_is(failure: BaseException) -> None:
    def work(_: StopRequest) -> None:
        raise failure

    with pytest.raises(type(failure)) as caught:
        in_session(work)
    assert caught.value is failure
    assert "work" in [entry.name for entry in caught.traceback]


def test_the_callers_modes_have_no_influence() -> None:
    with torch.no_grad():
        assert in_session(lambda _: torch.is_grad_enabled())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not in_session(lambda _: torch.is_autocast_enabled("cpu"))


# -- interrupts ------------------------------------------------------------------------------------


def working_till_stopped(then: Callable[[], object]) -> Callable[[StopRequest], object]:
    def work(stop: StopRequest) -> object:
        assert stop.wait(10), "no stop request came"
        return then()

    return work


def interrupted() -> object:
    raise Interrupted


def failed() -> object:
    raise ValueError("broken while stopping")


@pytest.fixture
def own_handler() -> Iterator[None]:
    """Python's own handler for Ctrl-C, whatever runs the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("own_handler")
@pytest.mark.parametrize("then", [interrupted, failed, lambda: "finished all the same"])
def test_an_interrupt_stops_the_work_and_is_raised(then: Callable[[], object]) -> None:
    alarm = threading.Timer(0.05, _thread.interrupt_main)
    alarm.start()
    with pytest.raises(KeyboardInterrupt):
        in_session(working_till_stopped(then))
    alarm.join()
    assert not in_the_training_threads()


@pytest.mark.usefixtures("own_handler")
def test_impatience_changes_nothing() -> None:
    ended = []

    def slow_end() -> object:
        time.sleep(0.1)
        ended.append(True)
        raise Interrupted

    alarms = [threading.Timer(delay, _thread.interrupt_main) for delay in (0.03, 0.06, 0.09)]
    for alarm in alarms:
        alarm.start()
    with pytest.raises(KeyboardInterrupt):
        in_session(working_till_stopped(slow_end))
    for alarm in alarms:
        alarm.join()
    assert ended == [True]
    assert not in_the_training_threads()


@pytest.mark.usefixtures("own_handler", "two_threads")
def test_an_interrupt_leaves_the_process_as_it_was() -> None:
    alarm = threading.Timer(0.05, _thread.interrupt_main)
    alarm.start()
    with pytest.raises(KeyboardInterrupt):
        in_session(working_till_stopped(interrupted), threads=1)
    alarm.join()
    assert torch.get_num_threads() == number_in_a_new_thread() == 2
    assert denormals().count_nonzero() == N
