"""The heads that all views share."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dwcl.nn import LevelNetworks
from dwcl.training.memory import count_parameters

WIDTHS = (11, 4, 7)


def make(
    widths: tuple[int, ...] = WIDTHS, seeds: tuple[int, ...] | None = None, k: int = 3
) -> LevelNetworks:
    return LevelNetworks(
        widths,
        encoder=(9, 8),
        latent=6,
        decoder=(8, 9),
        embedding=5,
        n_clusters=k,
        generators=[torch.Generator().manual_seed(s) for s in seeds or range(len(widths))],
    )


@pytest.fixture
def xs() -> list[Tensor]:
    generator = torch.Generator().manual_seed(9)
    return [torch.rand(13, width, generator=generator) for width in WIDTHS]


@pytest.mark.parametrize(
    ("widths", "k", "count"), [((784, 784), 10, 10_749_386), ((1750, 79), 5, 11_008_082)]
)
def test_published_numbers_of_parameters(widths: tuple[int, ...], k: int, count: int) -> None:
    with torch.device("meta"):
        networks = LevelNetworks(
            widths,
            encoder=(500, 500, 2000),
            latent=512,
            decoder=(2000, 500, 500),
            embedding=128,
            n_clusters=k,
            generators=[torch.Generator() for _ in widths],
        )
    assert count_parameters(networks) == count
    by_hand = sum(1001 * d + 4_554_512 for d in widths) + 513 * 128 + 513 * k
    assert count == by_hand


@pytest.mark.parametrize("training", [True, False])
def test_one_head_of_each_kind_serves_all_views(xs: list[Tensor], training: bool) -> None:
    networks = make().train(training)
    hs = networks.encode(xs)
    zs, qs = networks.project(hs), networks.assign(hs)
    assert len(zs) == len(qs) == 3
    feature_head, label_head = networks.feature_head[0], networks.label_head[0]
    for h, z, q in zip(hs, zs, qs, strict=True):
        raw = h @ feature_head.weight.T + feature_head.bias
        torch.testing.assert_close(z, raw / raw.square().sum(1, keepdim=True).sqrt())
        scores = (h @ label_head.weight.T + label_head.bias).exp()
        torch.testing.assert_close(q, scores / scores.sum(1, keepdim=True))
        torch.testing.assert_close(z.norm(dim=1), torch.ones(13))
        torch.testing.assert_close(q.sum(dim=1), torch.ones(13))
        assert (z.shape, q.shape) == ((13, 5), (13, 3))


def test_any_number_of_codes_can_be_assigned(xs: list[Tensor]) -> None:
    networks = make()
    hs = networks.encode(xs)
    every = networks.assign([*hs, hs[0] + hs[1]])
    assert len(every) == 4
    torch.testing.assert_close(every[1], networks.assign(hs[1:2])[0])


def test_every_view_has_its_part_in_the_gradients_of_the_heads(xs: list[Tensor]) -> None:
    networks = make()

    def gradients(*views: int) -> list[Tensor]:
        hs = [h.detach() for h in networks.encode(xs)]
        picked = [hs[v] for v in views]
        total = sum(z[:, 0].sum() for z in networks.project(picked))
        total = total + sum(q[:, 0].sum() for q in networks.assign(picked))
        heads = [*networks.feature_head.parameters(), *networks.label_head.parameters()]
        return list(torch.autograd.grad(total, heads))

    parts = [gradients(v) for v in range(3)]
    for whole, *of_views in zip(gradients(0, 1, 2), *parts, strict=True):
        torch.testing.assert_close(whole, torch.stack(of_views).sum(0))


def test_a_row_of_zeros_has_a_finite_gradient() -> None:
    networks = make((3,))
    for parameter in networks.parameters():
        torch.nn.init.zeros_(parameter)
    (z,) = networks.project(networks.encode([torch.zeros(2, 3)]))
    z.sum().backward()
    assert torch.equal(z, torch.zeros(2, 5))
    assert all(p.grad is None or p.grad.isfinite().all() for p in networks.parameters())


def test_the_order_of_views_has_no_influence_on_the_start() -> None:
    networks, turned = make(), make(WIDTHS[::-1], seeds=(2, 1, 0))
    ours, theirs = networks.state_dict(), turned.state_dict()
    heads = [name for name in ours if not name.startswith("autoencoders")]
    assert len(heads) == 4
    assert all(torch.equal(ours[name], theirs[name]) for name in heads)
    other = make(seeds=(0, 1, 3)).state_dict()
    assert not torch.equal(ours["label_head.0.weight"], other["label_head.0.weight"])
    # Nor is it that of a view's own layers.
    alone = make((6,), seeds=(0,))
    assert not torch.equal(
        alone.autoencoders[0].encoder[0].weight[0], alone.feature_head[0].weight[0]
    )
