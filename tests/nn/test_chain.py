"""A chain of layers is what autocast computes, and follows every change of the weights."""

from __future__ import annotations

import contextlib
import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dwcl.nn import perceptron, set_precision, steps_in_place
from dwcl.nn.precision import Perceptron

HALF = torch.bfloat16


def chain(*widths: int, seed: int = 0) -> Perceptron:
    layers = perceptron(widths, torch.Generator().manual_seed(seed))
    set_precision(layers, "bf16")
    return layers.train()


def batch(b: int, width: int, seed: int = 1) -> Tensor:
    return torch.randn(b, width, generator=torch.Generator().manual_seed(seed))


def by_autocast(layers: Perceptron, x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=HALF):
        return nn.Sequential(*layers)(x).float()


def gradients(layers: Perceptron, x: Tensor, out: Tensor) -> list[Tensor]:
    weights = torch.linspace(-1, 1, out.numel()).reshape(out.shape)
    inputs = [*layers.parameters(), *([x] if x.requires_grad else [])]
    return list(torch.autograd.grad((out * weights).sum(), inputs))


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("widths", [(7, 5), (30, 20, 5), (30, 20, 40, 8, 5)])
@pytest.mark.parametrize("b", [1, 2, 33])
def test_values_and_gradients_are_those_of_autocast(
    widths: tuple[int, ...], b: int, seed: int
) -> None:
    layers = chain(*widths, seed=seed)
    x = batch(b, widths[0], seed).requires_grad_()
    ours, theirs = layers(x), by_autocast(layers, x)
    assert torch.equal(ours, theirs)
    found = gradients(layers, x, ours)
    expected = gradients(layers, x, theirs)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float32
        # Sums of biases are in float32 here, rounded to bfloat16 there.
        torch.testing.assert_close(one, other, rtol=0.02, atol=0.02 * float(other.abs().max()))


def test_gradients_are_those_of_a_plain_float64_chain_up_to_rounding() -> None:
    layers = chain(30, 40, 20, 5)
    exact = nn.Sequential(*copy.deepcopy(layers)).double()
    x = batch(64, 30)
    found = gradients(layers, x, layers(x))
    out = exact(x.double())
    weights = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).reshape(out.shape)
    expected = torch.autograd.grad((out * weights).sum(), list(exact.parameters()))
    for one, other in zip(found, expected, strict=True):
        # Some ten roundings to 8 bits lie one after the other.
        assert (one - other).norm() < 10 * 2**-8 * other.norm()


@pytest.mark.parametrize("widths", [(7, 5), (30, 20, 8, 5)])
def test_layers_without_a_bias_are_those_of_autocast_too(widths: tuple[int, ...]) -> None:
    layers = perceptron(widths, torch.Generator().manual_seed(0), bias=False).train()
    set_precision(layers, "bf16")
    x = batch(33, widths[0]).requires_grad_()
    ours, theirs = layers(x), by_autocast(layers, x)
    assert torch.equal(ours, theirs)
    found, expected = gradients(layers, x, ours), gradients(layers, x, theirs)
    assert len(found) == len(widths)  # of the weights, and of x
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0.02, atol=0.02 * float(other.abs().max()))


def test_an_input_without_gradient_gets_none() -> None:
    layers = chain(6, 4, 3)
    x = batch(5, 6)
    layers(x).sum().backward()
    assert x.grad is None
    assert all(p.grad is not None for p in layers.parameters())


def test_the_rounded_weights_follow_every_change() -> None:
    layers = chain(6, 4, 3)
    x = batch(5, 6)
    optimiser = torch.optim.Adam(layers.parameters(), lr=0.1, fused=True)
    for _ in range(3):
        layers(x).square().sum().backward()
        optimiser.step()
        assert torch.equal(layers(x), by_autocast(layers, x))
    layers.load_state_dict(chain(6, 4, 3, seed=5).state_dict())
    assert torch.equal(layers(x), by_autocast(layers, x))
    linear = layers[0]
    assert isinstance(linear, nn.Linear)
    linear.weight.data = linear.weight.data.clone() + 1
    assert torch.equal(layers(x), by_autocast(layers, x))


def test_a_chain_may_be_used_several_times_in_a_step() -> None:
    layers = chain(6, 4, 3)
    one, two = batch(5, 6, 1), batch(5, 6, 2)
    (layers(one).square().sum() + layers(two).square().sum()).backward()
    found = [p.grad.clone() for p in layers.parameters() if p.grad is not None]
    separate = [gradients_of_squares(layers, x) for x in (one, two)]
    for grad, first, second in zip(found, *separate, strict=True):
        torch.testing.assert_close(grad, first + second)


def gradients_of_squares(layers: Perceptron, x: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(layers(x).square().sum(), list(layers.parameters())))


def test_places_are_kept_between_steps_and_given_back_after_them() -> None:
    layers = chain(6, 4, 3)
    linears = [layer for layer in layers if isinstance(layer, nn.Linear)]
    weights, gradients = [], []
    with steps_in_place(nn.ModuleList([layers])) as begin_step:
        for _ in range(3):
            begin_step()
            layers.zero_grad(set_to_none=True)
            layers(batch(5, 6)).square().sum().backward()
            weights.append([place.data_ptr() for place in layers.memory.weights(linears, HALF)])
            gradients.append([linear.weight.grad.data_ptr() for linear in linears])  # type: ignore[union-attr]
    assert weights[0] == weights[1] == weights[2]
    assert gradients[0] == gradients[1] == gradients[2]  # taken over, not copied
    assert layers.memory._weights == layers.memory._gradients == []


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_kept_places_change_no_number(precision: Any) -> None:
    one, other = chain(30, 20, 5), chain(30, 20, 5)
    for layers in (one, other):
        set_precision(layers, precision)
    with steps_in_place(one) as begin_step:
        for step in range(4):
            begin_step()
            for layers in (one, other):
                layers.zero_grad(set_to_none=True)
                x, y = batch(9, 30, step), batch(4, 30, step + 50)
                # Twice in a step, as a head that serves two views.
                (layers(x).square().sum() + layers(y).sum()).backward()
            for p, q in zip(one.parameters(), other.parameters(), strict=True):
                assert p.grad is not None
                assert q.grad is not None
                assert torch.equal(p.grad, q.grad)
                with torch.no_grad():
                    p.sub_(p.grad, alpha=0.01)
                    q.sub_(q.grad, alpha=0.01)


def test_the_outer_of_two_decides_how_long_memory_is_kept() -> None:
    layers = chain(6, 4, 3)
    with steps_in_place(layers):
        with steps_in_place(layers) as begin_step:
            begin_step()
            layers(batch(5, 6)).sum().backward()
        assert layers.memory._gradients
    assert not layers.memory._gradients


def test_it_is_given_back_when_training_is_broken_off() -> None:
    layers = chain(6, 4, 3)
    with contextlib.suppress(KeyboardInterrupt), steps_in_place(layers) as begin_step:
        begin_step()
        layers(batch(5, 6)).sum().backward()
        raise KeyboardInterrupt
    assert not layers.memory.kept
    assert not layers.memory._gradients


def test_outside_of_steps_nothing_is_shared() -> None:
    layers = chain(6, 4, 3)
    x = batch(5, 6)
    early = layers(x)
    expected = gradients(layers, x, by_autocast(layers, x))
    with torch.no_grad():
        for p in layers.parameters():
            p.mul_(-1)
    layers(x).sum().backward()
    for one, other in zip(gradients(layers, x, early), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0.02, atol=0.02 * float(other.abs().max()))


def test_nothing_but_parameters_is_saved_or_copied() -> None:
    layers = chain(6, 4, 3)
    with steps_in_place(layers):
        layers(batch(2, 6)).sum().backward()
        assert set(layers.state_dict()) == {"0.weight", "0.bias", "2.weight", "2.bias"}
        assert not pickle.loads(pickle.dumps(layers)).memory.kept
        twin = copy.deepcopy(layers)
    assert not twin.memory.kept
    x = batch(5, 6)
    with torch.no_grad():
        for p in twin.parameters():
            p.mul_(2)
    assert torch.equal(twin(x), by_autocast(twin, x))
    assert torch.equal(layers(x), by_autocast(layers, x))


@pytest.mark.parametrize("seed", [0, 1])
def test_fp32_values_and_gradients_are_those_of_the_layers_themselves(seed: int) -> None:
    layers = chain(30, 20, 40, 5, seed=seed)
    set_precision(layers, "fp32")
    x = batch(17, 30, seed).requires_grad_()
    plain = nn.Sequential(*layers)(x)
    assert torch.equal(layers(x), plain)
    found, expected = gradients(layers, x, layers(x)), gradients(layers, x, plain)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
