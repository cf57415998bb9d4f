"""Batch normalisation, and chains of layers with it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dwcl.nn import BatchNorm, NormPerceptron, set_precision


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_batch_is_normalised_as_pytorch_does_it(seed: int) -> None:
    ours, theirs = BatchNorm(3), nn.BatchNorm1d(3)
    x = torch.randn(7, 3, generator=generator(seed))
    assert torch.equal(ours(x), theirs(x))
    assert torch.equal(ours.running_var, theirs.running_var)  # type: ignore[arg-type]


def test_a_batch_of_one_is_normalised_by_the_running_figures() -> None:
    layer = BatchNorm(2)
    layer(torch.tensor([[0.0, 1.0], [4.0, 3.0]]))
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    x = torch.tensor([[1.0, 2.0]])
    learning = layer(x)
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
    assert torch.equal(learning, layer.eval()(x))


@pytest.mark.parametrize(("plain_end", "negative"), [(True, True), (False, False)])
def test_the_end_is_linear_or_not(plain_end: bool, negative: bool) -> None:
    layers = NormPerceptron((4, 8, 5), generator(), plain_end=plain_end)
    out = layers(torch.randn(64, 4, generator=generator(1)))
    assert bool((out < 0).any()) is negative
    norms = [module for module in layers if isinstance(module, BatchNorm)]
    assert [norm.num_features for norm in norms] == ([8] if plain_end else [8, 5])


def test_it_is_a_plain_chain_of_layers() -> None:
    layers = NormPerceptron((4, 6, 5), generator(), plain_end=True)
    x = torch.randn(10, 4, generator=generator(1))
    first, norm, _, last = layers
    hidden = torch.relu(
        (y := first[0](x)).sub(y.mean(0)) / (y.var(0, unbiased=False) + norm.eps).sqrt()
    )
    torch.testing.assert_close(layers(x), last[0](hidden))


def test_its_products_follow_the_precision_of_the_run() -> None:
    layers = NormPerceptron((64, 64, 5), generator(), plain_end=True)
    x = torch.randn(32, 64, generator=generator(1))
    full = layers(x)
    set_precision(layers, "bf16")
    rounded = layers(x)
    assert rounded.dtype == torch.float32
    assert not torch.equal(full, rounded)
    torch.testing.assert_close(rounded, full, atol=0.1, rtol=0.1)
