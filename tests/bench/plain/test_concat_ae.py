"""The plain pre-training of concat-ae and bsv computes what the engine computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from dwcl.bench.methods import take_turns
from dwcl.bench.plain import get_plain, in_plain_layers
from dwcl.bench.plain.concat_ae import pretrain_epochs
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
