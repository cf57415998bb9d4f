"""The plan for memory, by hand, and the refusal of what cannot fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from dwcl.errors import DataError
from dwcl.nn import perceptron
from dwcl.training import memory
from dwcl.training.memory import (
    MemoryPlan,
    Needs,
    check_fits,
    count_parameters,
    estimate,
    free_memory,
)


def test_the_plan_follows_from_size_and_budget() -> None:
    # 1000 samples × 250 columns × 4 bytes, twice, are exactly 2 MB.
    assert not MemoryPlan.of(1000, (200, 50), 2e-3).streamed
    assert MemoryPlan.of(1001, (200, 50), 2e-3).streamed
    plan = MemoryPlan.of(60_000, (3072, 5376, 512, 5376, 5376, 1239, 5376), 2.0)
    assert plan == MemoryPlan(True, 125_000_000, 500_000_000, 333_333_333)


def test_the_estimate_by_hand() -> None:
    in_memory = MemoryPlan(streamed=False, window=10, features=10**6, exact=10**6)
    # 18 bytes per parameter; data twice; features once, and three times more for k-means.
    assert estimate(in_memory, 100, (3, 2), 50, 8) == Needs(900, 2 * 2000, 4 * 3200)
    streamed = MemoryPlan(streamed=True, window=300, features=1000, exact=2000)
    assert estimate(streamed, 100, (3, 2), 50, 8) == Needs(900, 600, 1000 + 3 * 2000)
    assert Needs(1, 2, 3).total == 6


def test_what_cannot_fit_is_refused_with_the_way_out() -> None:
    needs = Needs(networks=3 * 10**9, data=10**9, features=10**8)
    check_fits(needs, needs.total)
    check_fits(needs, None)
    with pytest.raises(DataError) as caught:
        check_fits(needs, 2 * 10**9)
    assert str(caught.value) == (
        "This fit takes about 4.1 GB of memory (networks 3.0 GB, data 1.0 GB, features 0.1 GB), "
        "and 2.0 GB are free. Make the networks smaller (encoder, latent), or leave out or reduce "
        "wide views."
    )
    with pytest.raises(DataError, match="Set memory_budget lower"):
        check_fits(Needs(10**9, 10**9, 10**9), 10**9)


def test_free_memory_is_the_lesser_of_machine_and_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    assert free_memory() is None
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   5 kB\n")
    assert free_memory() == 5 * 1024
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("100\n")
    assert free_memory() == 5 * 1024
    (tmp_path / "memory.max").write_text("1100\n")
    assert free_memory() == 1000
    (tmp_path / "memory.max").write_text("50\n")
    assert free_memory() == 0
    (tmp_path / "meminfo").write_text("nothing of the kind\n")
    assert free_memory() == 0


def test_parameters_are_counted() -> None:
    import torch

    layers = perceptron((3, 4, 2), torch.Generator())
    assert count_parameters(layers) == 3 * 4 + 4 + 4 * 2 + 2
