from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from dwcl.nn import joint_generator, linear, perceptron
from dwcl.nn.precision import Perceptron


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def double_by_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def test_weights_have_the_distribution_of_pytorch() -> None:
    inputs, outputs = 400, 300
    layer = linear(inputs, outputs, generator())
    bound = 1 / math.sqrt(inputs)  # of PyTorch's own start values, for weights and biases
    assert (layer.weight.shape, layer.bias.shape) == ((outputs, inputs), (outputs,))
    for parameter in layer.parameters():
        assert parameter.requires_grad
        assert 0.98 * bound < parameter.abs().max() <= bound
    weight = layer.weight.detach()
    assert weight.mean().abs() < 5 * bound / math.sqrt(3 * inputs * outputs)
    assert weight.var().item() == pytest.approx(bound**2 / 3, rel=0.02)


def test_the_generator_alone_decides() -> None:
    first, same = linear(5, 4, generator(1)), linear(5, 4, generator(1))
    other = linear(5, 4, generator(2))
    assert torch.equal(first.weight, same.weight)
    assert torch.equal(first.bias, same.bias)
    assert not torch.equal(first.weight, other.weight)
    one = generator(1)
    assert not torch.equal(linear(5, 4, one).weight, linear(5, 4, one).weight)


def test_the_callers_generator_stays_as_it_is() -> None:
    before = torch.get_rng_state()
    perceptron((7, 6, 5), generator())
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.usefixtures("double_by_default")
def test_the_callers_default_type_has_no_influence() -> None:
    layers = perceptron((7, 6, 5), generator())
    assert {p.dtype for p in layers.parameters()} == {torch.float32}
    assert layers(torch.zeros(2, 7, dtype=torch.float32)).dtype == torch.float32


@pytest.mark.parametrize("widths", [(7, 5), (7, 6, 5), (7, 6, 4, 3, 5)])
def test_relu_lies_between_the_layers_and_the_end_is_linear(widths: tuple[int, ...]) -> None:
    layers = perceptron(widths, generator())
    assert isinstance(layers, Perceptron)
    kinds = [type(layer) for layer in layers]
    n_linear = len(widths) - 1
    assert kinds == [nn.Linear, nn.ReLU] * (n_linear - 1) + [nn.Linear]
    x = torch.randn(9, 7, generator=generator(3))
    by_hand = x
    linears = [layer for layer in layers if isinstance(layer, nn.Linear)]
    for position, layer in enumerate(linears):
        assert layer.weight.shape == (widths[position + 1], widths[position])
        by_hand = by_hand @ layer.weight.T + layer.bias
        if position < n_linear - 1:
            by_hand = by_hand.clamp(min=0)
    torch.testing.assert_close(layers(x), by_hand)
    assert (layers(x) < 0).any()


def test_layers_may_have_no_bias() -> None:
    layers = perceptron((7, 6, 5), generator(), bias=False)
    with_bias = perceptron((7, 6, 5), generator())
    one, two = (m for m in layers if isinstance(m, nn.Linear))
    assert (one.bias, two.bias) == (None, None)
    assert torch.equal(one.weight, with_bias[0].weight)
    x = torch.randn(9, 7, generator=generator(3))
    expected = (x @ one.weight.T).clamp(min=0) @ two.weight.T
    for training in (True, False):
        torch.testing.assert_close(layers.train(training)(x), expected)
    assert not layers(torch.zeros(1, 7)).any()


def test_what_views_share_follows_from_all_of_them_in_any_order() -> None:
    def drawn(*seeds: int) -> list[float]:
        return torch.rand(4, generator=joint_generator([generator(s) for s in seeds])).tolist()

    assert drawn(1, 2**63 - 1, 2**62) == drawn(2**62, 1, 2**63 - 1)
    assert drawn(1, 2) != drawn(1, 3)
    assert drawn(1) != torch.rand(4, generator=generator(1)).tolist()
    moved = generator(1)
    torch.rand(3, generator=moved)
    assert torch.rand(4, generator=joint_generator([moved, generator(2)])).tolist() == drawn(1, 2)


def test_weights_by_he_are_normal_and_biases_as_ever() -> None:
    inputs, outputs = 400, 300
    layer = linear(inputs, outputs, generator(), start="he-normal")
    weight = layer.weight.detach() / math.sqrt(2 / inputs)
    assert weight.mean().abs() < 5 / math.sqrt(inputs * outputs)
    assert weight.var().item() == pytest.approx(1, rel=0.02)
    assert weight.pow(4).mean().item() == pytest.approx(3, rel=0.05)  # of a normal distribution
    bound = 1 / math.sqrt(inputs)
    assert 0.98 * bound < layer.bias.abs().max() <= bound
    chained = perceptron((inputs, outputs, 5), generator(), start="he-normal")
    assert torch.equal(chained[0].weight, layer.weight)
    assert chained[2].weight.std().item() == pytest.approx(math.sqrt(2 / outputs), rel=0.1)


def test_a_joint_generator_can_be_made_where_nothing_is_drawn() -> None:
    with torch.device("meta"):
        joint = joint_generator([torch.Generator(), torch.Generator()])
        assert linear(5, 4, joint).weight.is_meta
