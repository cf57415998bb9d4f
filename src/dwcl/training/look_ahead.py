"""Learning what weighs a loss: by another loss, after a step on the weighted one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor


def look_ahead(
    parameters: Mapping[str, Tensor],
    weighing: Sequence[Tensor],
    *,
    weighted: Tensor,
    rest: Tensor,
    then: Callable[[dict[str, Tensor]], Tensor],
    length: float,
) -> list[Tensor]:
    r"""Gradient of a loss after a step, by what weighs the loss of the step.

    .. math::

        \frac{\partial}{\partial \varphi} F(\theta'), \qquad
        \theta' = \theta - \eta \nabla_\theta \big( W(\theta, \varphi) + R(\theta) \big)

    Only the part that knows :math:`\varphi` is differentiated twice:
    :math:`-\eta \, \nabla F(\theta')^\top \, \partial_\varphi \nabla_\theta W`. The networks must
    be ones that can be, as those of this package are in evaluation mode.

    Parameters
    ----------
    parameters : mapping of str to Tensor
        θ; W, R and F depend on all of them.
    weighing : sequence of Tensor
        φ.
    weighted, rest : Tensor
        W and R, numbers.
    then : callable
        F, from parameters by their names to a number.
    length : float
        η.

    Returns
    -------
    list of Tensor
        A gradient for each of φ.
    """
    theta = list(parameters.values())
    of_rest = torch.autograd.grad(rest, theta, retain_graph=True)
    of_weighted = torch.autograd.grad(weighted, theta, create_graph=True)
    ahead = {
        name: (value - length * (one + other)).detach().requires_grad_()
        for (name, value), one, other in zip(parameters.items(), of_rest, of_weighted, strict=True)
    }
    slopes = torch.autograd.grad(then(ahead), list(ahead.values()))
    found = torch.autograd.grad(of_weighted, list(weighing), grad_outputs=slopes)
    return [-length * gradient for gradient in found]
