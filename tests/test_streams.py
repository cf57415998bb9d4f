from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from dwcl.errors import SettingError
from dwcl.streams import RandomStreams, as_seed


def numpy_draw(streams: RandomStreams, *path: str | int) -> list[int]:
    return streams.numpy(*path).integers(0, 1000, 8).tolist()


def torch_draw(streams: RandomStreams, *path: str | int) -> list[int]:
    return torch.randint(0, 1000, (8,), generator=streams.torch(*path)).tolist()


DRAWS = pytest.mark.parametrize("draw", [numpy_draw, torch_draw])


@DRAWS
def test_the_same_seed_and_path_give_the_same_numbers(draw: Any) -> None:
    first = draw(RandomStreams(7), "shuffle", "pretrain", 3)
    assert draw(RandomStreams(7), "shuffle", "pretrain", 3) == first
    for seed, path in [
        (8, ("shuffle", "pretrain", 3)),
        (7, ("shuffle", "pretrain", 4)),
        (7, ("shuffle", "contrast-1", 3)),
        (7, ("shuffle",)),
        (7, ()),
    ]:
        assert draw(RandomStreams(seed), *path) != first


@DRAWS
def test_what_was_drawn_before_has_no_influence(draw: Any) -> None:
    streams = RandomStreams(0)
    generator = streams.torch("a")
    torch.rand(1000, generator=generator)
    streams.numpy("b").random(1000)
    assert draw(streams, "b") == draw(RandomStreams(0), "b")


def test_the_parts_of_a_path_do_not_run_together() -> None:
    draws = {
        tuple(numpy_draw(RandomStreams(0), *path)) for path in [("ab", "c"), ("a", "bc"), ("abc",)]
    }
    assert len(draws) == 3


def test_streams_of_one_seed_are_uncorrelated() -> None:
    streams = RandomStreams(0)
    rows = np.stack([streams.numpy("epoch", i).standard_normal(4000) for i in range(8)])
    off_diagonal = np.corrcoef(rows)[~np.eye(8, dtype=bool)]
    assert np.abs(off_diagonal).max() < 0.08  # 5 standard deviations of 1/√4000


KNOWN = {
    0: ([277, 295, 674, 136, 850, 570, 110, 260], [224, 167, 698, 769, 485, 447, 443, 709]),
    1: ([540, 446, 667, 983, 816, 947, 616, 858], [370, 608, 25, 788, 463, 425, 926, 729]),
    2**40 + 1: ([164, 264, 396, 318, 41, 150, 569, 493], [921, 145, 911, 856, 788, 751, 514, 453]),
}


@pytest.mark.parametrize("seed", KNOWN)
def test_the_numbers_are_those_of_every_release(seed: int) -> None:
    streams = RandomStreams(seed)
    by_numpy, by_torch = KNOWN[seed]
    assert numpy_draw(streams, "shuffle", "pretrain", 7) == by_numpy
    assert torch_draw(streams, "shuffle", "pretrain", 7) == by_torch


def test_another_process_draws_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "123")
    code = (
        "from dwcl.streams import RandomStreams; "
        "print(RandomStreams(5).numpy('kmeans', 'view one', 2).integers(0, 1000, 8).tolist())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == str(numpy_draw(RandomStreams(5), "kmeans", "view one", 2))


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_numpy_integers_are_seeds_too(kind: type[np.integer[Any]]) -> None:
    seed = as_seed(kind(42))
    assert seed == 42
    assert type(seed) is int


def test_large_seeds_are_kept_apart() -> None:
    assert as_seed(2**200) == 2**200
    assert numpy_draw(RandomStreams(2**64)) != numpy_draw(RandomStreams(0))


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
def test_a_generator_gives_a_seed_and_advances(make: Any) -> None:
    generator = make(3)
    first, second = as_seed(generator), as_seed(generator)
    assert first != second
    again = make(3)
    assert [as_seed(again), as_seed(again)] == [first, second]
    assert first >= 0


def test_none_is_fresh_entropy() -> None:
    assert len({as_seed(None) for _ in range(5)}) == 5


@pytest.mark.parametrize("seed", [-1, np.int64(-5)])
def test_a_negative_seed_is_refused(seed: Any) -> None:
    with pytest.raises(SettingError, match=r"random_state is -[15]; a seed must be 0 or greater"):
        RandomStreams(seed)


@pytest.mark.parametrize("seed", [True, np.True_, "7", 7.0, [1], torch.Generator()])
def test_what_is_no_random_state_is_refused(seed: Any) -> None:
    with pytest.raises(SettingError, match=r"random_state is .*; a whole number, a numpy Random"):
        RandomStreams(seed)


def test_global_generators_stay_as_they_are() -> None:
    before = (np.random.get_state(), torch.get_rng_state(), random.getstate())  # noqa: NPY002
    for state in (None, 3):
        streams = RandomStreams(state)
        numpy_draw(streams, "a")
        torch_draw(streams, "a")
    after = (np.random.get_state(), torch.get_rng_state(), random.getstate())  # noqa: NPY002
    assert after[2] == before[2]
    assert torch.equal(after[1], before[1])
    for now, then in zip(after[0], before[0], strict=True):
        np.testing.assert_array_equal(now, then)
