from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from dwcl.nn import ViewNetworks

WIDTHS = (11, 4, 7)


def make(
    widths: tuple[int, ...] = WIDTHS,
    encoder: tuple[int, ...] = (9, 8),
    seeds: tuple[int, ...] | None = None,
) -> ViewNetworks:
    return ViewNetworks(
        widths,
        encoder=encoder,
        latent=6,
        decoder=encoder[::-1],
        embedding=5,
        generators=[
            torch.Generator().manual_seed(seed) for seed in (seeds or tuple(range(len(widths))))
        ],
    )


@pytest.fixture
def xs() -> list[Tensor]:
    generator = torch.Generator().manual_seed(9)
    return [torch.rand(13, width, generator=generator) for width in WIDTHS]


def linear_shapes(module: nn.Module) -> list[tuple[int, int]]:
    layers = [m for m in module.modules() if isinstance(m, nn.Linear)]
    return [(layer.in_features, layer.out_features) for layer in layers]


def test_the_layers_are_those_of_the_settings() -> None:
    networks = make()
    for width, autoencoder, head in zip(WIDTHS, networks.autoencoders, networks.heads, strict=True):
        assert linear_shapes(autoencoder.encoder) == [(width, 9), (9, 8), (8, 6)]
        assert linear_shapes(autoencoder.decoder) == [(6, 8), (8, 9), (9, width)]
        assert linear_shapes(head) == [(6, 5)]


def test_no_hidden_layer_leaves_linear_maps() -> None:
    networks = make(encoder=())
    assert linear_shapes(networks.autoencoders[0]) == [(11, 6), (6, 11)]


def test_the_maps_are_those_of_each_views_own_layers(xs: list[Tensor]) -> None:
    networks = make()
    hs = networks.encode(xs)
    decoded = networks.decode(hs)
    zs = networks.project(hs)
    for v, x in enumerate(xs):
        h = networks.autoencoders[v].encoder(x)
        torch.testing.assert_close(hs[v], h)
        torch.testing.assert_close(decoded[v], networks.autoencoders[v].decoder(h))
        raw = networks.heads[v](h)
        torch.testing.assert_close(zs[v], raw / raw.square().sum(1, keepdim=True).sqrt())
        assert (hs[v].shape, decoded[v].shape, zs[v].shape) == ((13, 6), x.shape, (13, 5))


def test_rows_of_the_embedding_have_length_one(xs: list[Tensor]) -> None:
    networks = make()
    for z in networks.project(networks.encode(xs)):
        torch.testing.assert_close(z.norm(dim=1), torch.ones(13))


def test_a_row_of_zeros_has_a_finite_gradient() -> None:
    networks = make((3,))
    for parameter in networks.parameters():
        nn.init.zeros_(parameter)
    (z,) = networks.project(networks.encode([torch.zeros(2, 3)]))
    z.sum().backward()
    assert torch.equal(z, torch.zeros(2, 5))
    assert all(p.grad is None or p.grad.isfinite().all() for p in networks.parameters())


def test_views_share_nothing(xs: list[Tensor]) -> None:
    networks = make()
    networks.project(networks.encode(xs))[1].sum().backward()
    touched = {name for name, p in networks.named_parameters() if p.grad is not None}
    assert touched == {
        name
        for name, _ in networks.named_parameters()
        if name.startswith(("autoencoders.1.encoder", "heads.1"))
    }


def test_a_views_start_depends_on_its_own_generator_alone() -> None:
    networks, other = make(), make(WIDTHS[::-1], seeds=(2, 1, 0))
    for v, w in ((0, 2), (1, 1), (2, 0)):
        pairs = [
            (networks.autoencoders[v], other.autoencoders[w]),
            (networks.heads[v], other.heads[w]),
        ]
        for ours, theirs in pairs:
            for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
                assert torch.equal(p, q)


def test_another_number_of_views_is_an_error_of_the_program(xs: list[Tensor]) -> None:
    networks = make()
    with pytest.raises(ValueError, match="zip"):
        networks.encode(xs[:2])
    with pytest.raises(ValueError, match="zip"):
        make(WIDTHS, seeds=(0, 1))
