"""What a phase can be told: held parameters, whole steps, refreshed values, dropped batches."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dwcl.streams import RandomStreams
from dwcl.training import Batch, Callback, InMemory, LossTerms, Record, Trainer
from dwcl.training.checkpoint import CheckpointStore, Keeper

N, BATCH, RATE = 10, 4, 0.05


class Line(nn.Module):
    """y = a·x + b for one column, with a buffer that no optimiser knows."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor([0.5]))
        self.b = nn.Parameter(torch.tensor([-0.25]))
        self.register_buffer("seen", torch.zeros(1))


def samples() -> Tensor:
    return torch.linspace(-1, 1, N)[:, None]


def squared(line: Line, batch: Batch) -> LossTerms:
    """Half the mean square of a·x + b − (2x + 1), weighted unevenly over the samples."""
    x = batch.views[0][:, 0]
    off = line.a * x + line.b - (2 * x + 1)
    return LossTerms((off.square() * (1 + batch.index)).mean() / 2, {})


def make(line: nn.Module, **options: Any) -> Trainer:
    given: dict[str, Any] = {"batch_size": BATCH, "learning_rate": RATE} | options
    return Trainer(line, InMemory([samples()]), RandomStreams(3), **given)


# -- what is trained -------------------------------------------------------------------------------


def test_only_the_chosen_parameters_learn() -> None:
    line = Line()
    trainer = make(line)
    trainer.phase("both", 1, lambda batch: squared(line, batch))
    held = line.b.detach().clone()
    moving = line.a.detach().clone()
    trainer.phase("one", 2, lambda batch: squared(line, batch), trained=(line.a,))
    assert torch.equal(line.b, held)  # also its momentum rests
    assert not torch.equal(line.a, moving)
    assert line.b.requires_grad
    trainer.phase("again", 1, lambda batch: squared(line, batch))
    assert not torch.equal(line.b, held)


def test_parameters_learn_again_after_a_phase_that_failed() -> None:
    line = Line()

    def fail(_: Batch) -> LossTerms:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        make(line).phase("one", 1, fail, trained=(line.a,))
    assert line.b.requires_grad


def test_a_network_without_parameters_has_phases_too() -> None:
    nothing = nn.Module()
    nothing.register_buffer("best", torch.tensor(2))
    weight = torch.ones(1, requires_grad=True)
    trainer = make(nothing)
    trainer.phase("idle", 1, lambda batch: LossTerms(weight.sum() * len(batch), {}))
    assert trainer.history[0]["loss"] == pytest.approx((4 * 4 + 4 * 4 + 2 * 2) / N)


# -- batches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch_size", "kept", "sizes"),
    [(4, "keep", [4, 4, 2]), (4, "drop", [4, 4]), (5, "drop", [5, 5]), (16, "drop", [10])],
)
def test_a_short_last_batch_stays_or_goes(batch_size: int, kept: str, sizes: list[int]) -> None:
    line, seen = Line(), []

    def loss(batch: Batch) -> LossTerms:
        seen.append(len(batch))
        return LossTerms(line.a.sum() * 0 + float(len(batch)), {})

    trainer = make(line, batch_size=batch_size)
    trainer.phase("p", 1, loss, last_batch=kept)
    assert seen == sizes
    mean = sum(size * size for size in sizes) / sum(sizes)
    assert trainer.history[0]["loss"] == pytest.approx(mean)  # over the samples that were used


def test_a_phase_may_have_data_of_its_own() -> None:
    line, seen = Line(), []

    def loss(batch: Batch) -> LossTerms:
        seen.extend(batch.views[0][:, 0].tolist())
        return squared(line, batch)

    own = InMemory([torch.full((3, 1), 7.0)])
    make(line).phase("p", 2, loss, source=own)
    assert seen == [7.0] * 6


@pytest.mark.parametrize("batch_size", [1, 4, 10, 64])
def test_a_whole_step_is_that_of_all_samples_at_once(batch_size: int) -> None:
    line, plain = Line(), Line()
    trainer = make(line, batch_size=batch_size)
    trainer.phase("p", 3, lambda batch: squared(line, batch), whole=True)
    adam = torch.optim.Adam(plain.parameters(), lr=RATE)
    losses = []
    for _ in range(3):
        adam.zero_grad()
        loss = squared(plain, Batch([samples()], torch.arange(N))).total
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        losses.append(float(loss.detach()))
    torch.testing.assert_close(line.state_dict(), plain.state_dict())
    assert [r["loss"] for r in trainer.history] == pytest.approx(losses, rel=1e-5)


# -- what is computed anew for each epoch ----------------------------------------------------------


def test_what_is_refreshed_goes_with_every_batch_of_its_epoch() -> None:
    line, given, training = Line(), [], []

    def refresh(epoch: int) -> dict[str, Any]:
        line.eval()
        return {"target": torch.tensor(float(epoch)), "name": f"epoch {epoch}"}

    def loss(batch: Batch, target: Tensor, name: str) -> LossTerms:
        given.append((float(target), name))
        training.append(line.training)
        return squared(line, batch)

    make(line).phase("p", 2, loss, refresh=refresh)
    assert given == [(1.0, "epoch 1")] * 3 + [(2.0, "epoch 2")] * 3
    assert all(training)


def test_each_step_has_a_stream_of_its_own() -> None:
    line, drawn = Line(), []
    trainer = make(line)

    def loss(batch: Batch) -> LossTerms:
        again = [float(torch.rand(1, generator=trainer.stream("noise"))) for _ in range(2)]
        assert again[0] == again[1]
        other = float(torch.rand(1, generator=trainer.stream("mask")))
        drawn.extend([again[0], other])
        return squared(line, batch)

    trainer.phase("p", 2, loss)
    trainer.phase("q", 1, loss)
    assert len(set(drawn)) == len(drawn) == 2 * 9


def test_moments_are_given_back_at_the_end() -> None:
    line = Line()
    trainer = make(line)
    trainer.phase("p", 1, lambda batch: squared(line, batch))
    (adam,) = trainer._optimisers.values()
    moment = weakref.ref(adam.state[line.a]["exp_avg"])
    del adam
    assert moment() is not None
    trainer.end()
    gc.collect()
    assert moment() is None


# -- going on --------------------------------------------------------------------------------------


class BrokenError(Exception):
    pass


def run(folder: Path, *, break_at: int | None, whole: bool) -> tuple[Line, list[Record], list[int]]:
    """Three phases with everything that a checkpoint must hold; broken at a call of the loss."""
    line = Line()
    keeper = Keeper(CheckpointStore(folder, {"method": "line"}), every=0)
    trainer = make(line, keeper=keeper)
    other = trainer.optimiser("other", [line.b], 0.5)
    calls, refreshed = [0], []

    def refresh(epoch: int) -> dict[str, Any]:
        refreshed.append(epoch)
        return {"target": line.a.detach().clone(), "step": epoch}

    def loss(batch: Batch, target: Tensor, step: int) -> LossTerms:
        calls[0] += 1
        if calls[0] == break_at:
            raise BrokenError
        terms = squared(line, batch)
        noise = torch.rand(1, generator=trainer.stream("noise"))
        total = terms.total + step * noise.sum() * (line.a - target).square().sum()
        if not whole:
            line.b.grad = noise
            other.step()
            line.b.grad = None
        return LossTerms(total, {"noise": noise})

    trainer.phase("first", 1, lambda batch: squared(line, batch))
    trainer.phase("held", 2, loss, refresh=refresh, trained=(line.a,), reset="epoch")
    trainer.phase("last", 2, loss, refresh=refresh, whole=whole, last_batch="drop")
    return line, trainer.history, refreshed


def without_times(history: Sequence[Record]) -> list[Record]:
    return [{k: v for k, v in record.items() if k != "seconds"} for record in history]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("break_at", range(1, 11))
def test_a_broken_run_ends_in_the_same_numbers(break_at: int, whole: bool, tmp_path: Path) -> None:
    line, history, _ = run(tmp_path / "whole", break_at=None, whole=whole)
    with pytest.raises(BrokenError):
        run(tmp_path / "broken", break_at=break_at, whole=whole)
    again, longer, _ = run(tmp_path / "broken", break_at=None, whole=whole)
    assert all(torch.equal(again.state_dict()[k], v) for k, v in line.state_dict().items())
    assert without_times(longer) == without_times(history)


def test_a_resumed_epoch_has_what_was_refreshed_at_its_beginning(tmp_path: Path) -> None:
    with pytest.raises(BrokenError):
        run(tmp_path, break_at=5, whole=False)  # the second step of the second epoch
    _, _, refreshed = run(tmp_path, break_at=None, whole=False)
    assert refreshed == [1, 2]  # of the last phase alone


def test_callbacks_see_the_records_of_all_phases() -> None:
    line, seen = Line(), []

    class Watcher(Callback):
        def on_record(self, record: Record) -> None:
            seen.append((record["phase"], record["epoch"]))

    trainer = make(line, callbacks=[Watcher()])
    trainer.phase("a", 1, lambda batch: squared(line, batch), whole=True)
    trainer.phase("b", 2, lambda batch: squared(line, batch), last_batch="drop")
    assert seen == [("a", 1), ("b", 1), ("b", 2)]
