from __future__ import annotations

from itertools import chain

import pytest
import torch

from dwcl.streams import RandomStreams
from dwcl.training import Batch, InMemory
from dwcl.training.endless import Endless, by_steps

N = 10


def endless(batch_size: int, seed: int = 0) -> Endless:
    x = torch.arange(N, dtype=torch.float32)
    streams = RandomStreams(seed)
    source = InMemory([x[:, None], -x[:, None]])
    return Endless(source, batch_size, lambda turn: streams.torch("pass", turn))


def positions(batches: list[Batch]) -> list[int]:
    return list(chain.from_iterable(batch.index.tolist() for batch in batches))


@pytest.mark.parametrize("size", [1, 4, 7, 10])
def test_passes_are_joined_end_to_end(size: int) -> None:
    batches = list(endless(size).steps(0, 30))
    assert {len(batch) for batch in batches} == {size}
    drawn = positions(batches)
    streams = RandomStreams(0)
    orders = (torch.randperm(N, generator=streams.torch("pass", t)).tolist() for t in range(1, 32))
    assert drawn == list(chain.from_iterable(orders))[: 30 * size]
    for batch in batches:
        assert torch.equal(batch.views[0][:, 0], batch.index.float())
        assert torch.equal(batch.views[1], -batch.views[0])


def test_a_batch_has_no_more_than_all_samples() -> None:
    for batch in endless(256).steps(0, 3):
        assert sorted(batch.index.tolist()) == list(range(N))


def test_any_steps_can_be_had_in_any_order() -> None:
    whole = [batch.index.tolist() for batch in endless(4).steps(0, 12)]

    def part(draw: Endless, start: int, stop: int) -> list[list[int]]:
        return [batch.index.tolist() for batch in draw.steps(start, stop)]

    draw = endless(4)
    assert part(draw, 0, 5) == whole[:5]
    assert part(draw, 5, 8) == whole[5:8]
    assert part(draw, 2, 4) == whole[2:4]  # from the beginning once more
    assert part(draw, 10, 12) == whole[10:]
    begun = draw.steps(12, 14)
    next(begun)
    begun.close()  # broken off in the middle
    assert part(draw, 0, 12) == whole


def test_steps_are_counted_in_epochs_and_draws_stand_under_one_another() -> None:
    batches = by_steps([endless(4), endless(3, seed=1)], 7, 3)
    epochs = [[batch.index.tolist() for batch in batches(epoch)] for epoch in (1, 2, 3)]
    assert [len(epoch) for epoch in epochs] == [3, 3, 1]
    one, other = list(endless(4).steps(0, 7)), list(endless(3, seed=1).steps(0, 7))
    expected = [a.index.tolist() + b.index.tolist() for a, b in zip(one, other, strict=True)]
    assert list(chain.from_iterable(epochs)) == expected
    assert [batch.index.tolist() for batch in batches(2)] == epochs[1]
