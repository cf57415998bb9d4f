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


@pytest.mark.parametrize(
    ("by_pair", "where"),
    [
        ([0.5, math.nan, 0.5], r"epoch 7, first seen in view 'colour', 'shape'\. A"),
        ([math.nan, 0.5, 0.5], r"epoch 7, first seen in view 'colour'\. A"),
        (math.nan, r"epoch 7\. A"),
    ],
)
@pytest.mark.parametrize("event", ["assessment", "weights"])
def test_without_reconstruction_the_pairs_name_the_views(
    by_pair: Any, where: str, event: str
) -> None:
    pairs = [["colour", "colour"], ["shape", "colour"], ["shape", "shape"]]
    weighed = {"event": event, "pairs": [{"views": views} for views in pairs]}
    guard = Guard()
    guard.on_start(RunInfo("dwcl", ("colour", "shape"), 10, past=(weighed,)))
    with pytest.raises(TrainingError, match=where):
        guard.on_record(epoch(math.nan, contrast=by_pair))


# -- explosion: more than a million times the loss at the start, and not falling -------------------


def losses(*values: float, phase: str = "pretrain", first: float | None = None) -> list[Any]:
    """Records of the epochs of a phase, of which the first one tells the loss at the start."""
    records: list[Any] = [
        {"event": "epoch", "phase": phase, "epoch": i, "loss": value}
        for i, value in enumerate(values, 1)
    ]
    if first is not None:
        records[0]["first_loss"] = first
    return records


@pytest.mark.parametrize(
    ("records", "when"),
    [
        # It begins with 2, so the limit is 2e6. It rises all the time, and passes it in epoch 3.
        (losses(3, 4e3, 2.1e6, 1e9, first=2), "epoch 3: it is 2.1e+06 after 2 at"),
        # Overshot in the first epoch, and stuck there.
        (losses(2.2e35, 2.7e35, 2.7e35, first=0.6), "epoch 2: it is 2.7e+35 after 1 at"),
        (losses(1e9, 1e9, first=2), "epoch 2: "),
        # Falling for a while, then rising.
        (losses(1e12, 1e10, 1e11, first=5), "epoch 3: it is 1e+11 after 5 at"),
        # Towards minus infinity.
        (losses(-3, -4e6, -5e6, first=-2), "epoch 2: it is -4e+06 after 2 at"),
        # In a later phase; the first one began with 7.
        ([*losses(7, 3, first=7), *losses(5, 6e6, 7.1e6, phase="b", first=5)], "'b', epoch 3: "),
        # Nobody told the loss at the start: the first epoch has to do.
        (losses(2, 1e6, 2.1e6), "epoch 3: it is 2.1e+06 after 2 at"),
    ],
)
@pytest.mark.parametrize("resumed_after", [0, 1])
def test_an_exploded_loss_stops_the_run(records: list[Any], when: str, resumed_after: int) -> None:
    guard = Guard()
    past = tuple(records[:resumed_after])
    guard.on_start(RunInfo("dwcl", ("colour", "shape"), 10, past=past))
    with pytest.raises(TrainingError) as caught:  # noqa: PT012 - which record it is, is told below
        for record in records[resumed_after:]:
            guard.on_record(record)
    assert when in str(caught.value)
    assert "does not fall. A loss that falls is expected: lower learning_rate" in str(caught.value)


@pytest.mark.parametrize(
    "records",
    [
        # Adam overshoots in its first steps and comes back.
        losses(3e9, 2e7, 3e6, 4, 3, first=0.6),
        # Just not a million times the start.
        losses(1, 2e6, 2e6, 2e6, first=2),
        # Large data that are not scaled.
        losses(1e12, 1.1e12, 1.2e12, first=1e12),
        # From next to nothing to something small.
        losses(1e-9, 1e-1, 0.5, 0.9, first=1e-9),
        # Through zero, and negative.
        losses(2, 0, -3, -50, -400, first=1e-3),
        # A phase that begins with much more than the one before ended with.
        [*losses(1, 1e-8, first=1), *losses(4e7, 5e7, phase="b", first=4e7)],
        # One that begins at zero after one that did not.
        [*losses(90, 1, first=90), *losses(0, 2e7, 3e7, phase="b", first=0)],
        # A single epoch per phase has nothing to rise from.
        [*losses(1e9, first=1), *losses(2e9, phase="b", first=1)],
    ],
)
def test_other_losses_raise_no_alarm(guard: Guard, records: list[Any]) -> None:
    for record in records:
        guard.on_record(record)


def test_the_view_that_exploded_is_named(guard: Guard) -> None:
    first, second = losses(3, 5e6, first=2)
    guard.on_record(first)
    with pytest.raises(TrainingError, match=r"'pretrain', epoch 2, first seen in view 'shape': it"):
        guard.on_record(second | {"reconstruction": [3.0, 5e6]})
