from __future__ import annotations

import pytest
import torch

from dwcl.training import InMemory


def source(n: int) -> InMemory:
    """Two views whose entries tell the sample."""
    rows = torch.arange(n, dtype=torch.float32)
    return InMemory([rows[:, None].expand(n, 3).clone(), -rows[:, None]])


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("n", "batch_size", "sizes"),
    [
        (10, 4, [4, 4, 2]),
        (8, 4, [4, 4]),
        (3, 4, [3]),
        (9, 4, [4, 4, 1]),
        (3, 1, [1, 1, 1]),
        (1, 128, [1]),
    ],
)
def test_an_epoch_is_every_sample_once_the_last_batch_short(
    n: int, batch_size: int, sizes: list[int]
) -> None:
    batches = list(source(n).epoch(batch_size, generator(0)))
    assert [len(batch) for batch in batches] == sizes
    seen = torch.cat([batch.index for batch in batches])
    assert sorted(seen.tolist()) == list(range(n))
    for batch in batches:
        wide, narrow = batch.views
        assert wide.shape == (len(batch), 3)
        assert torch.equal(wide[:, 0], batch.index.float())
        assert torch.equal(narrow[:, 0], -batch.index.float())


def test_the_generator_alone_decides_the_order() -> None:
    def order(seed: int) -> list[int]:
        return [i for batch in source(50).epoch(7, generator(seed)) for i in batch.index.tolist()]

    before = torch.get_rng_state()
    assert order(1) == order(1)
    assert order(1) == torch.randperm(50, generator=generator(1)).tolist()
    assert order(1) != order(2)
    assert torch.equal(torch.get_rng_state(), before)


def test_batches_are_slices_of_one_permuted_copy() -> None:
    first, second = source(8).epoch(4, generator(0))
    for a, b in zip(first.views, second.views, strict=True):
        assert a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def test_the_data_stay_in_their_order() -> None:
    data = source(9)
    list(data.epoch(4, generator(0)))
    assert torch.equal(data.views[0][:, 0], torch.arange(9.0))


@pytest.mark.parametrize("rows", [1, 4, 9, 100])
def test_blocks_are_the_samples_in_their_order(rows: int) -> None:
    data = source(9)
    blocks = list(data.blocks(rows))
    assert all(len(view) <= rows for block in blocks for view in block)
    for v, view in enumerate(data.views):
        assert torch.equal(torch.cat([block[v] for block in blocks]), view)
