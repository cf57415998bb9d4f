"""Linear layers with ReLU between them, multiplied in bfloat16, as one step of differentiation.

Autocast would give the same numbers. It is slower for two reasons that this file is about: each
layer is several nodes of the graph, and each step makes the rounded weights anew, in fresh memory
that the system has to find page by page. Here a chain is one node, and the rounded weights have
places of their own.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

HALF = torch.bfloat16


class RoundedWeights:
    """Places for the weights of some layers in bfloat16.

    They are written anew at each use: whether a weight has changed cannot be told, since fused
    optimisers leave no trace on a tensor's version. While a graph holds them for its backward
    step, as when a head serves several views, the next use gets others.
    """

    def __init__(self) -> None:
        self._places: list[Tensor] = []
        self._holder: weakref.ref[Held] | None = None

    def of(self, layers: Sequence[nn.Linear]) -> Held:
        """Round the weights of the layers."""
        if self._holder is not None and self._holder() is not None:
            return Held([layer.weight.detach().to(HALF) for layer in layers])
        if len(self._places) != len(layers):
            self._places = [torch.empty_like(layer.weight, dtype=HALF) for layer in layers]
        with torch.no_grad():
            for place, layer in zip(self._places, layers, strict=True):
                place.copy_(layer.weight)
        held = Held(self._places)
        self._holder = weakref.ref(held)
        return held

    def forget(self) -> None:
        """Give the memory back."""
        self._places, self._holder = [], None

    def __deepcopy__(self, memo: dict[int, object]) -> RoundedWeights:
        """Copy nothing: a copy of the layers makes places of its own."""
        return RoundedWeights()

    def __reduce__(self) -> tuple[type[RoundedWeights], tuple[()]]:
        """Leave the places out of a file, too."""
        return (RoundedWeights, ())


@dataclass(frozen=True, eq=False)
class Held:
    """Rounded weights, in use as long as this object lives."""

    weights: list[Tensor]


def rounded_chain(x: Tensor, layers: Sequence[nn.Linear], rounded: Held) -> Tensor:
    """Send a batch (b × d) through the layers with ReLU between; float32 in and out.

    Parameters
    ----------
    x : Tensor, b × d
        The batch.
    layers : sequence of nn.Linear
        Their weights and biases get the gradients, in float32.
    rounded : Held
        Their weights in bfloat16.
    """
    parameters = [p for layer in layers for p in (layer.weight, layer.bias)]
    out: Tensor = _Chain.apply(x, rounded, *parameters)  # type: ignore[no-untyped-call]
    return out


class _Chain(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rounded: Held, *parameters: Tensor) -> Tensor:
        biases = parameters[1::2]
        weights = rounded.weights
        inputs = [x.to(HALF)]
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            inputs.append(torch.addmm(bias.to(HALF), inputs[-1], weight.T).relu_())
        ctx.save_for_backward(*inputs, *weights)
        ctx.rounded = rounded  # as long as the graph lives, nobody else writes there
        return torch.addmm(biases[-1].to(HALF), inputs[-1], weights[-1].T).float()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        count = len(ctx.saved_tensors) // 2
        inputs, weights = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        flow = grad.to(HALF)
        gradients: list[Tensor] = []
        for layer in reversed(range(count)):
            gradients = [
                torch.mm(flow.T, inputs[layer]).float(),
                flow.sum(0, dtype=torch.float32),
                *gradients,
            ]
            if layer:
                flow = torch.mm(flow, weights[layer])
                flow = torch.ops.aten.threshold_backward(flow, inputs[layer], 0)
        first = torch.mm(flow, weights[0]).float() if ctx.needs_input_grad[0] else None
        return (first, None, *gradients)
