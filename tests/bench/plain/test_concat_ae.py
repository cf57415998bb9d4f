"""The plain pre-training of concat-ae and bsv computes what the engine computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn

from dwcl.bench.methods import take_turns
from dwcl.bench.plain import get_plain, in_plain_layers
from dwcl.bench.plain.concat_ae import learn, one_adam, pretrain_epochs, shuffled
from dwcl.nn import AutoEncoders

TINY: dict[str, Any] = {
    "encoder": (6, 7), "latent": 5, "n_init": 1, "learning_rate": 1e-2, "n_clusters": 2,
    "precision": "fp32", "threads": 1,
}  # fmt: skip


def autoencoders(widths: Sequence[int], seed: int = 0) -> AutoEncoders:
    generators = [torch.Generator().manual_seed(seed + v) for v in range(len(widths))]
    made = in_plain_layers(
        AutoEncoders(widths, encoder=(6,), latent=5, decoder=(6,), generators=generators)
    )
    assert isinstance(made, AutoEncoders)
    return made


@pytest.mark.parametrize("method", ["concat-ae", "bsv"])
@pytest.mark.parametrize(("n", "widths"), [(30, (4,)), (17, (3, 9)), (40, (2, 5, 3))])
def test_both_come_to_the_same_losses_when_they_take_turns(
    n: int, widths: tuple[int, ...], method: str
) -> None:
    turns = take_turns(get_plain(method), n, widths, epochs=6, settings=TINY)
    ours, theirs = zip(*turns.losses["pretrain"], strict=True)
    assert len(ours) == 6
    assert ours == pytest.approx(theirs, rel=1e-5)
    assert ours[0] > ours[-1]


def test_short_batches_count_by_their_samples() -> None:
    views = [torch.rand(10, d, generator=torch.Generator().manual_seed(d)) for d in (3, 2)]
    whole, parts = (
        pretrain_epochs(autoencoders((3, 2)), views, batch_size=b, learning_rate=0.0)()
        for b in (10, 4)
    )
    assert whole == pytest.approx(parts, rel=1e-6)


def test_a_short_batch_is_left_out_where_it_is_asked_for_and_not_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    assert [len(b) for b in shuffled(10, 4, generator)] == [4, 4, 2]
    assert [len(b) for b in shuffled(10, 4, generator, drop_last=True)] == [4, 4]
    assert [len(b) for b in shuffled(8, 4, generator, drop_last=True)] == [4, 4]
    assert [len(b) for b in shuffled(3, 4, generator, drop_last=True)] == [3]
    once, again = (torch.cat(shuffled(10, 4, generator)) for _ in range(2))
    assert sorted(once.tolist()) == sorted(again.tolist()) == list(range(10))
    assert not torch.equal(once, again)


def test_each_batch_is_a_step_and_all_of_them_are_the_mean() -> None:
    """With Adam's rate of 1, a parameter's first step is 1 against its gradient."""
    value = nn.Parameter(torch.tensor(4.0))
    optimiser = torch.optim.Adam([value], lr=1.0)
    batches = [torch.arange(3), torch.arange(1)]
    seen = []

    def loss(index: torch.Tensor) -> torch.Tensor:
        seen.append(value.item())
        return value * 2

    mean = learn(loss, batches, optimiser)
    assert seen == pytest.approx([4.0, 3.0])
    assert mean == pytest.approx((3 * 8.0 + 1 * 6.0) / 4)
    assert value.item() == pytest.approx(2.0)


def test_an_optimiser_belongs_to_its_networks() -> None:
    one, other = autoencoders((3,)), autoencoders((3,))
    assert one_adam(one, 0.1) is one_adam(one, 0.1)
    assert one_adam(one, 0.1) is not one_adam(other, 0.1)
