"""The plain version of SEM computes what the engine computes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from dwcl.bench.methods import take_turns
from dwcl.bench.plain import get_plain, in_plain_layers
from dwcl.bench.plain.sem import PlainSEM, masked_infonce
from dwcl.losses import infonce
from dwcl.methods.sem import SEM
from dwcl.nn import ViewNetworks
from dwcl.streams import RandomStreams
from dwcl.training.batches import InMemory
from dwcl.training.loop import Trainer
from dwcl.views import every_pair

TINY: dict[str, Any] = {
    "encoder": (6,), "latent": 5, "embedding": 3, "n_init": 1, "learning_rate": 1e-2,
    "n_clusters": 2, "precision": "fp32", "threads": 1,
}  # fmt: skip


@pytest.mark.parametrize("b", [1, 2, 7])
def test_the_masked_loss_is_the_engine_s(b: int) -> None:
    generator = torch.Generator().manual_seed(b)
    zs = [functional.normalize(torch.randn(b, 4, generator=generator), dim=1) for _ in range(2)]
    for v, w in ((0, 1), (0, 0)):
        expected = infonce(zs, [(v, w)], 0.5).mean()
        torch.testing.assert_close(masked_infonce(zs[v], zs[w], 0.5), expected)


def test_epochs_of_each_change_the_weights_alike() -> None:
    """One batch holds all samples, so that the order of the shuffle has no influence."""
    generator = torch.Generator().manual_seed(0)
    views = [torch.rand(20, d, generator=generator) for d in (4, 3, 2)]
    table = [[1.7, 0.3, 0.6], [0.3, 1.7, 0.9], [0.6, 0.9, 1.7]]
    engine = ViewNetworks(
        (4, 3, 2), encoder=(6,), latent=5, decoder=(6,), embedding=3,
        generators=[torch.Generator().manual_seed(v) for v in range(3)],
    )  # fmt: skip
    plain = in_plain_layers(engine)
    assert isinstance(plain, ViewNetworks)
    pairs = every_pair(3, lambda v, w: table[v][w])
    weights = torch.tensor([pair.weight for pair in pairs])
    model = SEM(2)
    trainer = Trainer(engine, InMemory(views), RandomStreams(0), batch_size=20, learning_rate=1e-3)
    trainer.phase(
        "contrast-1",
        3,
        lambda batch: model.contrast(engine, pairs, weights, None, batch),
        reset="epoch",
    )
    reference = PlainSEM(plain, views, table, batch_size=20, learning_rate=1e-3)
    losses = [reference.epoch() for _ in range(3)]
    assert [record["loss"] for record in trainer.history] == pytest.approx(losses, rel=1e-5)
    for ours, theirs in zip(engine.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_both_come_to_the_same_losses_when_they_take_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ones = {"weights": [[1.0, 1.0], [1.0, 1.0]]}  # which times do not depend on
    monkeypatch.setattr(SEM, "_weights_after", lambda *args: ones)
    turns = take_turns(get_plain("sem"), 30, (4, 3), epochs=4, settings=TINY)
    ours, theirs = zip(*turns.losses["contrast-1"], strict=True)
    assert len(ours) == 4
    assert ours == pytest.approx(theirs, rel=1e-4)
    assert ours[0] > ours[-1]


def test_short_batches_count_by_their_samples() -> None:
    views = [torch.rand(10, 3, generator=torch.Generator().manual_seed(0))]
    made = ViewNetworks(
        (3,), encoder=(6,), latent=5, decoder=(6,), embedding=3,
        generators=[torch.Generator().manual_seed(0)],
    )  # fmt: skip
    whole, parts = (
        PlainSEM(made, views, [[0.0]], batch_size=b, learning_rate=0.0).epoch() for b in (10, 4)
    )
    assert whole == pytest.approx(parts, rel=1e-6)
