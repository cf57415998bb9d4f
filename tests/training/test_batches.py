from __future__ import annotations

import pytest
import torch

from dwcl.streams import RandomStreams
from dwcl.training import Batch, InMemory, LossTerms, Source, Streamed, Trainer, choose
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


# -- some of the samples -------------------------------------------------------------------------


def whole(kind: str, n: int) -> Source:
    return source(n) if kind == "memory" else Reader(n).source(40)


@pytest.mark.usefixtures("no_floor")
@pytest.mark.parametrize("kind", ["memory", "streamed"])
@pytest.mark.parametrize("n", [1, 90, 300])
@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
@pytest.mark.parametrize("batch_size", [1, 7, 128])
def test_chosen_samples_come_once_in_full_batches_with_their_positions(
    kind: str, n: int, share: float, batch_size: int
) -> None:
    index = torch.randperm(n, generator=generator(1))[: max(1, int(share * n))]
    some = choose(whole(kind, n), index)
    assert some.n_samples == len(index)
    found = list(some.epoch(batch_size, generator(0)))
    full, last = divmod(len(index), batch_size)
    assert [len(batch) for batch in found] == [batch_size] * full + [last] * (last > 0)
    assert sorted(i for batch in found for i in batch.index.tolist()) == sorted(index.tolist())
    for batch in found:
        wide, narrow = batch.views
        assert torch.equal(wide, batch.index.float()[:, None].expand(-1, 3))
        assert torch.equal(narrow[:, 0], -batch.index.float())


@pytest.mark.usefixtures("no_floor")
@pytest.mark.parametrize("kind", ["memory", "streamed"])
@pytest.mark.parametrize("rows", [1, 4, 100])
def test_chosen_samples_come_in_their_order_by_blocks(kind: str, rows: int) -> None:
    index = torch.tensor([50, 2, 3, 17, 4, 89, 88])
    some = choose(whole(kind, 90), index)
    found = [[view.clone() for view in views] for views in some.blocks(rows)]
    sizes = [len(views[0]) for views in found]
    assert sizes[:-1] == [min(rows, 7)] * (len(sizes) - 1)
    assert sum(sizes) == 7
    expected = index.sort().values
    assert some.index is not None
    assert torch.equal(some.index, expected)
    assert torch.equal(torch.cat([views[0] for views in found])[:, 0], expected.float())
    assert torch.equal(torch.cat([views[1] for views in found])[:, 0], -expected.float())


@pytest.mark.usefixtures("no_floor")
@pytest.mark.parametrize("kind", ["memory", "streamed"])
def test_the_order_of_chosen_samples_follows_from_the_generator_alone(kind: str) -> None:
    some = choose(whole(kind, 300), torch.arange(0, 300, 3))

    def order(seed: int) -> list[int]:
        return [i for batch in some.epoch(8, generator(seed)) for i in batch.index.tolist()]

    before = torch.get_rng_state()
    assert order(1) == order(1)
    assert order(1) != order(2)
    assert order(1) != sorted(order(1))
    assert torch.equal(torch.get_rng_state(), before)


def test_all_samples_chosen_are_the_whole() -> None:
    some = choose(source(20), torch.arange(20))
    for one, other in zip(
        some.epoch(6, generator(3)), source(20).epoch(6, generator(3)), strict=True
    ):
        assert torch.equal(one.index, other.index)
        assert torch.equal(one.views[0], other.views[0])


@pytest.mark.usefixtures("no_floor")
@pytest.mark.parametrize("kind", ["memory", "streamed"])
def test_a_step_on_all_chosen_samples_knows_where_they_are(kind: str) -> None:
    network = torch.nn.Linear(3, 1)
    seen: list[Batch] = []

    def loss(batch: Batch) -> LossTerms:
        seen.append(Batch([view.clone() for view in batch.views], batch.index.clone()))
        return LossTerms(network(batch.views[0] / 90).mean(), {})

    trainer = Trainer(network, whole(kind, 90), RandomStreams(0), batch_size=4, learning_rate=0.1)
    index = torch.arange(3, 90, 8)
    before = network.weight.detach().clone()
    trainer.phase("a", 1, loss, source=choose(trainer.source, index), whole=True)
    assert [len(batch) for batch in seen] == [4, 4, 3]
    assert torch.cat([batch.index for batch in seen]).tolist() == index.tolist()
    assert torch.cat([batch.views[0][:, 0] for batch in seen]).tolist() == index.tolist()
    assert not torch.equal(network.weight, before)
    assert trainer.history[0]["loss"] == pytest.approx(
        float((index[:, None] / 90 * before.sum()).mean() + network.bias.detach() + 0.1), abs=1e-5
    )


@pytest.mark.usefixtures("no_floor")
@pytest.mark.parametrize("kind", ["memory", "streamed"])
def test_a_choice_from_a_choice_is_one_from_the_whole(kind: str) -> None:
    first = choose(whole(kind, 90), torch.arange(0, 90, 2))
    second = choose(first, torch.tensor([80, 4, 7]))
    (views,) = list(second.blocks(5))
    assert views[0][:, 0].tolist() == [4, 7, 80]
    (batch,) = list(second.epoch(5, generator(0)))
    assert sorted(batch.index.tolist()) == [4, 7, 80]
