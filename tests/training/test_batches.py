from __future__ import annotations

import pytest
import torch

from dwcl.training import InMemory, Streamed
from dwcl.training import batches as batches_module


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


# -- streamed ------------------------------------------------------------------------------------


class Reader:
    """Two views whose entries tell the sample, with a note of every stretch that was read."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.stretches: list[tuple[int, int]] = []

    def fill(self, start: int, block: torch.Tensor) -> None:
        self.stretches.append((start, len(block)))
        block[:] = torch.arange(start, start + len(block), dtype=torch.float32)[:, None]

    def fill_negative(self, start: int, block: torch.Tensor) -> None:
        block[:] = -torch.arange(start, start + len(block), dtype=torch.float32)[:, None]

    def source(self, window_rows: int) -> Streamed:
        fills = [self.fill, self.fill_negative]
        return Streamed(fills, self.n, (3, 1), window_bytes=16 * window_rows)


@pytest.fixture
def no_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches_module, "FEWEST_ROWS", 1)


@pytest.mark.usefixtures("no_floor")
@pytest.mark.parametrize("n", [1, 64, 65, 300])
@pytest.mark.parametrize("window", [1, 5, 130, 10_000])
@pytest.mark.parametrize("batch_size", [1, 7, 128])
def test_a_streamed_epoch_is_every_sample_once(n: int, window: int, batch_size: int) -> None:
    found = list(Reader(n).source(window).epoch(batch_size, generator(0)))
    assert [len(b) for b in found[:-1]] == [batch_size] * (len(found) - 1)
    seen = torch.cat([batch.index for batch in found])
    assert sorted(seen.tolist()) == list(range(n))
    for batch in found:
        wide, narrow = batch.views
        assert wide.shape == (len(batch), 3)
        assert torch.equal(wide, batch.index.float()[:, None].expand(-1, 3))
        assert torch.equal(narrow[:, 0], -batch.index.float())


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_a_streamed_epoch_follows_from_the_generator_alone(seed: int) -> None:
    def order(seed: int) -> list[int]:
        epoch = Reader(2000).source(640).epoch(50, generator(seed))
        return [i for batch in epoch for i in batch.index.tolist()]

    before = torch.get_rng_state()
    assert order(seed) == order(seed)
    assert order(seed) != order(seed + 1)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("seed", range(3))
def test_batches_hold_samples_from_all_over_the_data(seed: int) -> None:
    n, batch = 64_000, 128
    epoch = Reader(n).source(6_400).epoch(batch, generator(seed))
    means = torch.stack([b.index.double().mean() for b in epoch][:-1])
    # The variance of a batch's mean is that of a perfect shuffle, n² / (12 b), and beside it that
    # of the mean of a window's 64 stretches, n² / (12 · 64).
    expected = n * (1 / (12 * batch) + 1 / (12 * 64)) ** 0.5
    assert float(means.std()) < 1.4 * expected
    assert abs(float(means.mean()) - n / 2) < n / 100


def test_what_is_read_is_long_stretches_in_the_order_of_the_data_within_a_window() -> None:
    reader = Reader(64_000)
    list(reader.source(6_400).epoch(128, generator(0)))
    assert {length for _, length in reader.stretches} == {100}
    starts = [start for start, _ in reader.stretches]
    windows = [starts[i : i + 64] for i in range(0, len(starts), 64)]
    assert all(window == sorted(window) for window in windows)
    assert starts != sorted(starts)


def test_streamed_samples_come_in_their_order_by_blocks() -> None:
    found = list(Reader(10).source(4).blocks(4))
    assert [len(views[0]) for views in found] == [4, 4, 2]
    # A block is used up before the next one is asked for, so its memory serves again.
    firsts = [v[0][:, 0].tolist() for v in Reader(10).source(4).blocks(4)]
    assert firsts == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_trouble_in_reading_reaches_the_loop() -> None:
    def fill(start: int, block: torch.Tensor) -> None:
        if start >= 512:
            raise OSError("the disk is gone")
        block.zero_()

    source = Streamed([fill], 2000, (4,), window_bytes=16 * 256)
    with pytest.raises(OSError, match="the disk is gone"):
        list(source.epoch(100, generator(0)))
