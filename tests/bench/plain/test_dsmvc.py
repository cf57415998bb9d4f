"""The plain version of DSMVC computes what the engine computes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from dwcl.bench.methods import take_turns
from dwcl.bench.plain import get_plain, in_plain_layers
from dwcl.bench.plain.dsmvc import PlainDSMVC, clustering_loss, weighted_mean
from dwcl.losses import deep_divergence
from dwcl.methods.dsmvc import DSMVC
from dwcl.streams import RandomStreams
from dwcl.training.batches import InMemory
from dwcl.training.loop import Trainer

TINY: dict[str, Any] = {
    "encoder": (12,), "features": 9, "hidden": 7, "learning_rate": 1e-3, "n_clusters": 3,
    "precision": "fp32", "threads": 1,
}  # fmt: skip


def plain_networks(model: DSMVC, widths: Sequence[int]) -> nn.Module:
    generators = [torch.Generator().manual_seed(v) for v in range(len(widths))]
    return in_plain_layers(model._build(widths, generators))


def test_the_loss_by_hand() -> None:
    """Three samples in one dimension, four at two places, and all of these in one cluster."""
    h = torch.tensor([[0.0], [1.0], [3.0]])
    q = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    assert float(clustering_loss(h, q, 0.15)) == pytest.approx(
        0.501270 + 0.426667 + 0.610022, abs=2e-6
    )
    h = torch.tensor([[0.0, 0.0], [0.0, 0.0], [2.0, 0.0], [2.0, 0.0]])
    q = torch.eye(2).repeat_interleave(2, 0)
    assert float(clustering_loss(h, q, 0.15)) == pytest.approx(1 / 3 + 1 / math.cosh(2), rel=1e-5)
    alike = torch.tensor([[1.0, 0.0]]).expand(4, 2)
    assert float(clustering_loss(h, alike, 0.15)) == pytest.approx(3.0, rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("b", "k"), [(2, 2), (7, 3), (20, 10)])
def test_the_loss_is_the_engine_s(b: int, k: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(b, 4, generator=generator)
    q = torch.randn(b, k, generator=generator).softmax(1)
    expected = deep_divergence(h, q, width=0.2).sum()
    torch.testing.assert_close(clustering_loss(h, q, 0.2), expected, rtol=1e-5, atol=1e-6)


def test_a_weighted_mean_by_hand() -> None:
    logits = torch.tensor([0.0, math.log(3.0)])
    fused = weighted_mean(logits, [torch.tensor([[4.0]]), torch.tensor([[8.0]])])
    assert fused.item() == pytest.approx(7.0)


@pytest.mark.parametrize(("n", "widths"), [(30, (4,)), (41, (3, 9)), (60, (2, 5, 3))])
def test_both_come_to_the_same_losses_when_they_take_turns(n: int, widths: tuple[int, ...]) -> None:
    turns = take_turns(get_plain("dsmvc"), n, widths, epochs=5, settings=TINY)
    for phase in ("networks-1", "gate-2"):
        ours, theirs = zip(*turns.losses[phase], strict=True)
        assert len(ours) == 5
        assert ours == pytest.approx(theirs, rel=1e-4)
        assert ours[0] > ours[-1]


def test_in_double_precision_they_stay_together() -> None:
    """In single precision Adam's first steps, in which all gradients count alike, part them."""
    model = DSMVC(**TINY)
    views = [torch.rand(40, d, generator=torch.Generator().manual_seed(d)).double() for d in (6, 5)]
    generators = [torch.Generator().manual_seed(v) for v in range(2)]
    engine: Any = model._build((6, 5), generators).double()
    plain = PlainDSMVC(model, in_plain_layers(engine), views)
    trainer = Trainer(engine, InMemory(views), RandomStreams(0), batch_size=40, learning_rate=1e-3)
    gate = engine.gate.logits
    rest = tuple(p for p in engine.parameters() if p is not gate)
    for phase, trained in (("networks-1", rest), ("gate-2", (gate,)), ("networks-3", rest)):
        trainer.phase(phase, 10, partial(model.loss, engine), trained=trained, reset="epoch")
    turns = (plain.networks_epoch, plain.gate_epoch, plain.networks_epoch)
    losses = [epoch() for epoch in turns for _ in range(10)]
    assert [record["loss"] for record in trainer.history] == pytest.approx(losses, rel=1e-7)
    assert losses[-1] < 0.9 * losses[0]


def test_networks_and_gate_are_held_while_the_other_learns() -> None:
    model = DSMVC(**TINY)
    views = [torch.rand(20, d, generator=torch.Generator().manual_seed(d)) for d in (4, 3)]
    plain = PlainDSMVC(model, plain_networks(model, (4, 3)), views)
    gate = plain.networks.gate.logits

    def values() -> dict[str, torch.Tensor]:
        return {name: p.detach().clone() for name, p in plain.networks.named_parameters()}

    for epoch, learns in ((plain.networks_epoch, False), (plain.gate_epoch, True)):
        before = values()
        epoch()
        changed = {name for name, value in values().items() if not torch.equal(value, before[name])}
        assert ("gate.logits" in changed) is learns
        assert (len(changed) > 1) is not learns
    assert float(gate.detach().sub(1 / 3).abs().max()) == pytest.approx(1e-3, rel=1e-3)


def test_short_batches_are_left_out() -> None:
    model = DSMVC(**{**TINY, "batch_size": 8})
    views = [torch.rand(20, 3, generator=torch.Generator().manual_seed(0))]
    plain = PlainDSMVC(model, plain_networks(model, (3,)), views)
    sizes = []
    loss = plain.loss

    def noted(xs: Sequence[torch.Tensor]) -> torch.Tensor:
        sizes.append(len(xs[0]))
        return loss(xs)

    plain.loss = noted  # type: ignore[method-assign]
    plain.networks_epoch()
    assert sizes == [8, 8]
