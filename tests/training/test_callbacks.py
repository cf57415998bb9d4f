from __future__ import annotations

import math
from typing import Any

import pytest

from dwcl.errors import TrainingError
from dwcl.training import Callback, Guard, RunInfo

INFO = RunInfo(method="dwcl", view_names=("colour", "shape"), total_epochs=10)


def epoch(loss: float, **parts: Any) -> dict[str, Any]:
    return {"event": "epoch", "phase": "contrast-2", "epoch": 7, "loss": loss, **parts}


@pytest.fixture
def guard() -> Guard:
    watcher = Guard()
    watcher.on_start(INFO)
    return watcher


def test_the_base_does_nothing() -> None:
    callback = Callback()
    callback.on_start(INFO)
    callback.on_record(epoch(math.nan))
    callback.on_end()


def test_finite_losses_and_other_events_pass(guard: Guard) -> None:
    guard.on_record(epoch(1e30, reconstruction=[1.0, 2.0]))
    guard.on_record({"event": "assessment", "quality": [math.nan, 0.0]})
    guard.on_end()


@pytest.mark.parametrize(
    ("loss", "word"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")]
)
def test_a_loss_that_is_no_number_stops_the_run(guard: Guard, loss: float, word: str) -> None:
    match = rf"The loss became {word} in phase 'contrast-2', epoch 7\. A finite number is expected"
    with pytest.raises(TrainingError, match=match):
        guard.on_record(epoch(loss, contrast=[math.nan], reconstruction=[0.5, 0.1]))


def test_the_message_says_what_to_do(guard: Guard) -> None:
    with pytest.raises(TrainingError, match=r"lower learning_rate, raise temperature, or choose"):
        guard.on_record(epoch(math.nan))


@pytest.mark.parametrize(
    ("by_view", "where"),
    [
        ([0.5, math.nan], r"epoch 7, first seen in view 'shape'\. A"),
        ([math.inf, 0.5], r"epoch 7, first seen in view 'colour'\. A"),
        ([math.nan, math.nan], r"epoch 7, first seen in view 'colour', 'shape'\. A"),
    ],
)
def test_the_view_is_named(guard: Guard, by_view: list[float], where: str) -> None:
    with pytest.raises(TrainingError, match=where):
        guard.on_record(epoch(math.nan, reconstruction=by_view))


def test_one_reconstruction_for_all_views_names_none(guard: Guard) -> None:
    with pytest.raises(TrainingError, match=r"phase 'contrast-2', epoch 7\. A finite"):
        guard.on_record(epoch(math.nan, reconstruction=math.nan))
