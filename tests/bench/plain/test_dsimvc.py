"""The plain version of DSIMVC computes what the engine computes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor

import dwcl.methods.dsimvc
from dwcl.bench.methods import Turns, take_turns
from dwcl.bench.plain import get_plain, in_plain_layers
from dwcl.bench.plain.dsimvc import (
    PlainDSIMVC,
    cluster,
    complete_samples,
    endless,
    filled_samples,
    label_loss,
    neighbours,
    pretrain,
    pretrain_neighbours,
    spectral_rows,
)
from dwcl.data.multiview import MultiView
from dwcl.losses import balanced_contrast, spectral
from dwcl.methods.dsimvc import DSIMVC
from dwcl.streams import RandomStreams
from dwcl.training.batches import Batch

TINY: dict[str, Any] = {
    "encoder": (12,), "latent": 8, "features": 6, "learning_rate": 1e-3, "n_clusters": 3,
    "precision": "fp32", "threads": 1,
}  # fmt: skip


def test_the_losses_by_hand() -> None:
    h, g = torch.tensor([[3.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    assert spectral_rows(h, g, 3.0).tolist() == pytest.approx([1.5 - math.sqrt(3), -1.0])
    q, p = torch.tensor([[0.8, 0.2], [0.3, 0.7]]), torch.tensor([[0.6, 0.4], [0.1, 0.9]])
    assert float(label_loss(q, p)) == pytest.approx(0.558617, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("b", "k"), [(1, 2), (7, 3), (20, 10)])
def test_the_losses_are_the_engine_s(b: int, k: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    h, g = (2 * torch.randn(b, 4, generator=generator) for _ in range(2))
    expected = spectral([h, g], [(0, 1)], radius=2.0)[0] / b
    torch.testing.assert_close(spectral_rows(h, g, 2.0), expected)
    q, p = (torch.randn(b, k, generator=generator).softmax(1) for _ in range(2))
    torch.testing.assert_close(label_loss(q, p), balanced_contrast([q, p], [(0, 1)])[0])


def test_endless_batches_have_each_sample_as_often() -> None:
    batches = list(islice(endless(10, 4, torch.Generator().manual_seed(0)), 5))
    assert [len(batch) for batch in batches] == [4] * 5
    assert sorted(torch.cat(batches).tolist()) == sorted([*range(10), *range(10)])
    few = list(islice(endless(3, 4, torch.Generator().manual_seed(0)), 2))
    assert [sorted(batch.tolist()) for batch in few] == [[0, 1, 2]] * 2


@pytest.mark.parametrize(("n", "widths"), [(30, (4,)), (41, (3, 9)), (60, (2, 5, 3))])
def test_both_come_to_the_same_losses_when_they_take_turns(n: int, widths: tuple[int, ...]) -> None:
    turns = take_turns(get_plain("dsimvc"), n, widths, epochs=4, settings=TINY)
    agree(turns, ("pretrain", "cluster"), 4)


@pytest.mark.parametrize("features", ["share", "mean"])
@pytest.mark.parametrize(("n", "widths"), [(41, (3, 9)), (60, (2, 5, 3))])
def test_so_they_do_where_views_are_missing(
    n: int, widths: tuple[int, ...], features: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing views are filled in by means of all samples that have them, for both."""

    def all_of_them(hs: object, observed: Tensor, n_donors: int) -> list[Tensor]:
        return [seen.nonzero().T.expand(int((~seen).sum()), -1) for seen in observed.T]

    monkeypatch.setattr(dwcl.methods.dsimvc, "find_donors", all_of_them)
    settings = TINY | {"filled_features": features}
    turns = take_turns_with_gaps(n, widths, settings | {"pretrain_epochs": 2, "steps": 30})
    agree(turns, ("neighbours-pretrain", "neighbours"), 4)
    agree(turns, ("pretrain",), 2)
    agree(turns, ("cluster",), 3)


@pytest.mark.parametrize("widths", [(3, 9), (2, 5, 3)])
def test_the_weights_learn_alike(widths: tuple[int, ...]) -> None:
    """In double precision, by look-aheads of a length that counts; the losses hardly show it."""
    model = DSIMVC(**TINY, look_ahead=0.3, weight_learning_rate=0.01, filled_features="mean")
    generators = [torch.Generator().manual_seed(v) for v in range(len(widths))]
    engine: Any = model._build(widths, generators).double().train()
    start = [p.detach().clone() for p in engine.weighting.parameters()]
    plain = PlainDSIMVC(
        model, in_plain_layers(engine), [view.double() for view in with_gaps(25, widths)]
    )
    complete, filled = (torch.arange(len(xs[0])) for xs in (plain.complete, plain.filled))
    both = [torch.cat(parts) for parts in zip(plain.complete, plain.filled, strict=True)]
    optimiser = torch.optim.Adam(engine.parameters(), lr=model.learning_rate)
    weighting = torch.optim.Adam(engine.weighting.parameters(), lr=model.weight_learning_rate)
    for _ in range(8):
        optimiser.zero_grad()
        terms = model.step(engine, weighting, len(complete), Batch(both, torch.arange(25)))
        torch.autograd.backward(terms.total)
        optimiser.step()
        assert terms.total.item() == pytest.approx(plain._mixed_step(complete, filled), rel=1e-9)
    learnt = list(plain.weighting.parameters())
    for ours, theirs, before in zip(engine.weighting.parameters(), learnt, start, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)
        assert float((theirs.detach() - before).abs().max()) > 0.03


def agree(turns: Turns, phases: Sequence[str], epochs: int) -> None:
    for phase in phases:
        ours, theirs = zip(*turns.losses[phase], strict=True)
        assert len(ours) == epochs
        assert ours == pytest.approx(theirs, rel=1e-5)
        assert ours[0] > ours[-1]


def take_turns_with_gaps(n: int, widths: Sequence[int], settings: dict[str, Any]) -> Turns:
    """Do what the measurement does, with data in which a third of the samples lack a view."""
    views = with_gaps(n, widths)
    data = MultiView({f"view{v}": view.numpy() for v, view in enumerate(views, 1)})
    searching = {"neighbour_pretrain_epochs": 4, "neighbour_epochs": 4}
    fixed = {"scaling": "none", "device": "cpu", "random_state": 0}
    model = DSIMVC(**{**settings, **searching, **fixed})
    generators = [RandomStreams(0).torch("networks", name) for name in data.names]
    networks = in_plain_layers(model._build(widths, generators))
    phases = {
        "pretrain": pretrain,
        "neighbours-pretrain": pretrain_neighbours,
        "neighbours": neighbours,
        "cluster": cluster,
    }
    turns = Turns(n, {name: make(model, networks, views) for name, make in phases.items()})
    model.fit(data, callbacks=[turns])
    return turns


def with_gaps(n: int, widths: Sequence[int]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    views = [torch.rand(n, width, generator=generator) for width in widths]
    for i in range(0, n, 3):
        views[i % len(widths)][i] = torch.nan
    return views


def test_samples_are_told_apart_by_what_they_lack() -> None:
    x, y = torch.tensor([[1.0], [torch.nan], [5.0]]), torch.tensor([[7.0], [8.0], [9.0]])
    assert [view.tolist() for view in complete_samples([x, y])] == [[[1.0], [5.0]], [[7.0], [9.0]]]
    assert [view.tolist() for view in filled_samples([x, y])] == [[[3.0]], [[8.0]]]
