"""A fit of any method that was broken off goes on and ends in the same bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from dwcl import Checkpoints, MultiView, save_model
from dwcl.methods import DeepMultiViewClusterer, methods
from dwcl.training.callbacks import Callback, Record, RunInfo
from dwcl.training.loop import Trainer

Model: TypeAlias = DeepMultiViewClusterer
Make: TypeAlias = Callable[..., Model]
Draw: TypeAlias = Callable[..., MultiView]
Steps: TypeAlias = Callable[[int | None], list[int]]

pytestmark = pytest.mark.parametrize("method", methods().values(), ids=list(methods()))


def bytes_of(model: Model, folder: Path) -> bytes:
    save_model(model, folder)
    content = [(folder / name).read_bytes() for name in ("model.json", "model.safetensors")]
    return b"".join(content) + model.labels_.tobytes()


def without_times(history: list[Record]) -> list[Record]:
    return [{k: v for k, v in record.items() if k != "seconds"} for record in history]


class BrokenError(Exception):
    """Stands for a crash."""


class BreakAt(Callback):
    """Breaks a run at its n-th record, or before the first."""

    def __init__(self, number: int) -> None:
        self.left = number

    def on_start(self, info: RunInfo) -> None:
        self._count(info)

    def on_record(self, record: Record) -> None:
        self._count(record)

    def _count(self, _: Any) -> None:
        if self.left == 0:
            raise BrokenError
        self.left -= 1


@pytest.mark.parametrize("where", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_a_run_broken_at_a_record_ends_in_the_same_bytes(
    tmp_path: Path, where: float, make: Make, fitted: Model, draw: Draw
) -> None:
    whole = fitted
    model = make()
    at = round(where * len(whole.history_))
    checkpoints = Checkpoints(tmp_path / "c", every=0)
    with pytest.raises(BrokenError):
        model.fit(draw(), callbacks=[BreakAt(at)], checkpoint=checkpoints)
    model.fit(draw(), checkpoint=checkpoints)
    assert bytes_of(model, tmp_path / "a") == bytes_of(whole, tmp_path / "b")
    assert without_times(model.history_) == without_times(whole.history_)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Count the steps of the trainer, and break at one of them."""
    original = Trainer._step

    def prepare(breaking: int | None) -> list[int]:
        done = [0]

        def counted(self: Trainer, *args: Any, **how: Any) -> None:
            done[0] += 1
            if done[0] == breaking:
                raise BrokenError
            original(self, *args, **how)

        monkeypatch.setattr(Trainer, "_step", counted)
        return done

    return prepare


@pytest.mark.parametrize("where", [0.3, 0.6, 0.9])
def test_a_run_broken_between_two_steps_ends_in_the_same_bytes(
    tmp_path: Path,
    steps: Steps,
    where: float,
    make: Make,
    draw: Draw,
) -> None:
    done = steps(None)
    whole = make().fit(draw())
    total = done[0]
    if total == 0:  # nothing is learnt
        assert not any(record["event"] == "epoch" for record in whole.history_)
        return
    model = make()
    steps(math.ceil(where * total))
    with pytest.raises(BrokenError):
        model.fit(draw(), checkpoint=Checkpoints(tmp_path / "c", every=0))
    done = steps(None)
    model.fit(draw(), checkpoint=tmp_path / "c")
    assert done[0] < total
    assert bytes_of(model, tmp_path / "a") == bytes_of(whole, tmp_path / "b")
    assert without_times(model.history_) == without_times(whole.history_)
