from __future__ import annotations

import pytest
import torch

from dwcl.nn import SharedHeads


def make(widths: tuple[int, ...], **others: int) -> SharedHeads:
    sizes = {"latent": 5, "features": 3, "n_clusters": 4} | others
    return SharedHeads(
        widths,
        encoder=(8,),
        decoder=(7,),
        generators=[torch.Generator().manual_seed(v) for v in range(len(widths))],
        shared=torch.Generator().manual_seed(99),
        **sizes,
    )


@pytest.mark.parametrize("training", [True, False])
def test_each_view_goes_through_its_encoder_and_the_heads_of_all(training: bool) -> None:
    made = make((6, 2, 9)).train(training)
    xs = [torch.randn(11, d, generator=torch.Generator().manual_seed(d)) for d in (6, 2, 9)]
    hs, qs = made(xs)
    for x, autoencoder, h, q in zip(xs, made.each(), hs, qs, strict=True):
        code = autoencoder.encoder(x)
        torch.testing.assert_close(h, made.features(code))
        torch.testing.assert_close(q, made.labels(code).softmax(1))
        torch.testing.assert_close(q.sum(1), torch.ones(11))


def test_what_the_heads_see_depends_on_no_decoder() -> None:
    made = make((6, 2))
    chosen = made.without_decoders()
    hs, qs = made([torch.randn(3, 6), torch.randn(3, 2)])
    sum(part.square().sum() for part in (*hs, *qs)).backward()  # type: ignore[union-attr]
    touched = {name for name, p in made.named_parameters() if p.grad is not None}
    assert touched == set(chosen)
    assert 0 < len(chosen) < len(list(made.parameters()))


def test_the_shared_generator_draws_the_heads() -> None:
    one, other = make((6, 2)), make((6, 3))
    assert torch.equal(one.features[0].weight, other.features[0].weight)
    assert not torch.equal(one.features[0].weight, one.labels[0].weight)
