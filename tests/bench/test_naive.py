"""The naive loop computes what the engine computes: otherwise a ratio of times says nothing."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from dwcl.bench.naive import NaiveTrainer, make_networks, masked_infonce
from dwcl.losses import infonce, reconstruction
from dwcl.nn import Perceptron, ViewNetworks
from dwcl.streams import RandomStreams
from dwcl.training.batches import Batch, InMemory
from dwcl.training.loop import LossTerms, Trainer


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("b", [1, 2, 7])
def test_the_masked_loss_is_the_engine_s(seed: int, b: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    zs = [functional.normalize(torch.randn(b, 4, generator=rng), dim=1) for _ in range(2)]
    for v, w in ((0, 1), (0, 0)):
        expected = infonce(zs, [(v, w)], 0.5).mean()
        torch.testing.assert_close(masked_infonce(zs[v], zs[w], 0.5), expected)


def _small() -> ViewNetworks:
    return ViewNetworks(
        (4, 3),
        encoder=(6,),
        latent=5,
        decoder=(6,),
        embedding=3,
        generators=[torch.Generator().manual_seed(v) for v in range(2)],
    )


def test_a_step_of_each_changes_the_weights_alike() -> None:
    """One batch holds all samples, so that the order of the shuffle has no influence."""
    rng = torch.Generator().manual_seed(0)
    views = [torch.randn(20, d, generator=rng) for d in (4, 3)]
    weights = [[1.0, 0.3], [0.3, 0.7]]
    engine = _small()

    def loss(batch: Batch) -> LossTerms:
        hs = engine.encode(batch.views)
        by_pair = infonce(engine.project(hs), [(0, 0), (0, 1), (1, 1)], 1.0).mean(dim=1)
        by_view = reconstruction(batch.views, engine.decode(hs))
        total = (torch.tensor([1.0, 0.6, 0.7]) * by_pair).sum() + by_view.sum()
        return LossTerms(total, {})

    trainer = Trainer(engine, InMemory(views), RandomStreams(0), batch_size=20, learning_rate=1e-3)
    reference = NaiveTrainer(engine, views, batch_size=20, learning_rate=1e-3)
    trainer.phase("contrast", 3, loss)
    losses = [reference.contrast_epoch(weights) for _ in range(3)]
    assert [record["loss"] for record in trainer.history] == pytest.approx(losses, rel=1e-5)
    for ours, theirs in zip(engine.parameters(), reference.networks.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_its_layers_are_pytorch_s_own() -> None:
    naive = NaiveTrainer(_small(), [torch.rand(5, 4), torch.rand(5, 3)])
    assert not any(isinstance(module, Perceptron) for module in naive.networks.modules())
    assert sum(isinstance(module, nn.Linear) for module in naive.networks.modules()) == 10


def test_pretraining_learns() -> None:
    views = [torch.rand(40, 4, generator=torch.Generator().manual_seed(0)) for _ in range(2)]
    naive = NaiveTrainer(_widths_of_four(), views, batch_size=16, learning_rate=1e-2)
    assert naive.pretrain_epoch() > [naive.pretrain_epoch() for _ in range(10)][-1]


def _widths_of_four() -> ViewNetworks:
    return ViewNetworks(
        (4, 4),
        encoder=(6,),
        latent=5,
        decoder=(6,),
        embedding=3,
        generators=[torch.Generator().manual_seed(v) for v in range(2)],
    )


def test_the_networks_are_the_paper_s() -> None:
    shapes = [tuple(p.shape) for p in make_networks((20,)).each()[0].encoder.parameters()]
    assert shapes[::2] == [(500, 20), (500, 500), (2000, 500), (512, 2000)]
