"""The gradient of a loss after a step, against differentiation through the whole step."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from dwcl.nn import perceptron
from dwcl.training.look_ahead import look_ahead


def problem(seed: int) -> tuple[torch.nn.Module, torch.nn.Module, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    model = perceptron((4, 6, 3), generator).double().eval()
    weighing = perceptron((3, 5, 1), generator).double().eval()
    x, y = torch.randn(2, 8, 4, generator=generator, dtype=torch.float64)
    return model, weighing, x, y


def losses(out: Tensor, weighing: torch.nn.Module) -> tuple[Tensor, Tensor]:
    u = weighing(out).squeeze(1).sigmoid()  # the weights depend on the parameters, too
    return (u * out.square().sum(1)).sum() / u.sum(), out.sin().sum()


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("length", [0.3, 1e-3])
def test_it_is_differentiation_through_the_step(seed: int, length: float) -> None:
    model, weighing, x, y = problem(seed)
    theta, phi = dict(model.named_parameters()), list(weighing.parameters())
    weighted, rest = losses(model(x), weighing)

    def then(parameters: dict[str, Tensor]) -> Tensor:
        return functional_call(model, parameters, (y,)).cos().sum()

    found = look_ahead(theta, phi, weighted=weighted, rest=rest, then=then, length=length)
    whole = sum(losses(model(x), weighing))
    slopes = torch.autograd.grad(whole, list(theta.values()), create_graph=True)  # type: ignore[arg-type]
    pairs = zip(theta.items(), slopes, strict=True)
    ahead = {name: value - length * slope for (name, value), slope in pairs}
    expected = torch.autograd.grad(then(ahead), phi)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-15)
    assert all(p.grad is None for p in (*model.parameters(), *phi))


def test_it_is_the_slope_of_finite_differences() -> None:
    model, weighing, x, y = problem(3)
    theta, phi = dict(model.named_parameters()), list(weighing.parameters())

    def after() -> float:
        slopes = torch.autograd.grad(sum(losses(model(x), weighing)), list(theta.values()))  # type: ignore[arg-type]
        pairs = zip(theta.items(), slopes, strict=True)
        ahead = {name: value - 0.2 * slope for (name, value), slope in pairs}
        return functional_call(model, ahead, (y,)).cos().sum().item()

    weighted, rest = losses(model(x), weighing)
    found = look_ahead(
        theta, phi, weighted=weighted, rest=rest, length=0.2,
        then=lambda ahead: functional_call(model, ahead, (y,)).cos().sum(),
    )  # fmt: skip
    for parameter, gradient in zip(phi, found, strict=True):
        for place in range(0, parameter.numel(), 3):
            flat = parameter.detach().view(-1)
            sides = []
            for change in (1e-5, -2e-5):
                flat[place] += change
                sides.append(after())
            flat[place] += 1e-5
            slope = (sides[0] - sides[1]) / 2e-5
            assert gradient.view(-1)[place].item() == pytest.approx(slope, rel=1e-4, abs=1e-9)
