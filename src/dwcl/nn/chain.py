"""Linear layers with ReLU between them as one step of differentiation, with memory that is kept.

Layer by layer and with autocast the numbers would be the same. It would be slower by a tenth and
more: each layer is several nodes of the graph, and each step asks the system for fresh memory, page
by page, for rounded weights and gradients that are as large as all the weights together. Here a
chain is one node, and a training loop that says where its steps begin (:func:`steps_in_place`) gets
them in places of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from dwcl.products import product


class StepMemory:
    """Memory of a chain for one step: its weights in the type of the products, and gradients.

    Outside of :func:`steps_in_place` nothing is kept, and every call gets memory of its own.
    """

    def __init__(self) -> None:
        self.kept = False
        self._weights: list[Tensor] = []
        self._gradients: list[Tensor] = []
        self._fresh = False  # whether the kept weights are those of this step
        self._free = False  # whether the places of the gradients are free in this step

    def keep(self, kept: bool) -> None:
        """Keep memory from now on, or give it back."""
        self.kept = kept
        if not kept:
            self._weights, self._gradients = [], []
        self.begin_step()

    def begin_step(self) -> None:
        """Weights may have changed, and the gradients of the step before are used up."""
        self._fresh, self._free = False, self.kept

    def weights(self, layers: Sequence[nn.Linear], dtype: torch.dtype) -> list[Tensor]:
        """Return the layers' weights in a type."""
        weights = [layer.weight.detach() for layer in layers]
        if not self.kept or all(weight.dtype == dtype for weight in weights):
            return [weight.to(dtype) for weight in weights]
        if not self._weights or self._weights[0].dtype != dtype:
            self._weights = [torch.empty_like(weight, dtype=dtype) for weight in weights]
            self._fresh = False
        if not self._fresh:
            for place, weight in zip(self._weights, weights, strict=True):
                place.copy_(weight)
            self._fresh = True
        return self._weights

    def gradients(self, layers: Sequence[nn.Linear]) -> list[Tensor]:
        """Return places for the gradients of the weights; in a step, the second call gets others.

        What is returned are new tensors on kept memory: differentiation takes over as a gradient,
        without a copy, only a tensor that nobody else has.
        """
        if not self._free:
            return [torch.empty_like(layer.weight) for layer in layers]
        if not self._gradients:
            self._gradients = [torch.empty_like(layer.weight) for layer in layers]
        self._free = False
        return [place.view_as(place) for place in self._gradients]

    def __deepcopy__(self, memo: dict[int, object]) -> StepMemory:
        """Copy nothing: a copy of the layers begins with no memory."""
        return StepMemory()

    def __reduce__(self) -> tuple[type[StepMemory], tuple[()]]:
        """Leave the memory out of a file, too."""
        return (StepMemory, ())


@contextmanager
def steps_in_place(networks: nn.Module) -> Iterator[Callable[[], None]]:
    """Let the chains of some networks keep their memory from step to step.

    Gives a function to be called at the beginning of each step. Gradients hold until then; whoever
    needs them longer copies them.
    """
    memories = [
        memory
        for m in networks.modules()
        if isinstance(memory := vars(m).get("memory"), StepMemory)
    ]
    # Where that is so already, it stays so: the outer one of two decides.
    new = [memory for memory in memories if not memory.kept]
    for memory in new:
        memory.keep(True)

    def begin_step() -> None:
        for memory in memories:
            memory.begin_step()

    try:
        yield begin_step
    finally:
        for memory in new:
            memory.keep(False)


def run_chain(
    x: Tensor, layers: Sequence[nn.Linear], dtype: torch.dtype, memory: StepMemory
) -> Tensor:
    """Send a batch (b × d) through the layers with ReLU between; the type of the weights comes out.

    Parameters
    ----------
    x : Tensor, b × d
        The batch.
    layers : sequence of nn.Linear
        Their weights and biases, where they have some, get the gradients, in their own type.
    dtype : torch.dtype
        Type of the products' operands.
    memory : StepMemory
        Of this chain.
    """
    parameters = [p for layer in layers for p in (layer.weight, layer.bias)]
    out: Tensor = _Chain.apply(x, layers, dtype, memory, *parameters)  # type: ignore[no-untyped-call]
    return out


class _Chain(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        layers: Sequence[nn.Linear],
        dtype: torch.dtype,
        memory: StepMemory,
        *parameters: Tensor | None,
    ) -> Tensor:
        weights, biases = memory.weights(layers, dtype), parameters[1::2]
        inputs = [x.to(dtype)]
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            inputs.append(_affine(inputs[-1], weight, bias).relu_())
        ctx.save_for_backward(*inputs, *weights)
        ctx.layers, ctx.memory = layers, memory
        return _affine(inputs[-1], weights[-1], biases[-1]).to(layers[-1].weight.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        count = len(ctx.layers)
        inputs, weights = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        places = ctx.memory.gradients(ctx.layers)
        flow = grad.to(inputs[0].dtype)
        of_biases: list[Tensor | None] = []
        for layer in reversed(range(count)):
            product(flow.T, inputs[layer], out=places[layer])
            has_bias = ctx.layers[layer].bias is not None
            of_biases.insert(0, flow.sum(0, dtype=grad.dtype) if has_bias else None)
            if layer:
                flow = product(flow, weights[layer])
                flow = torch.ops.aten.threshold_backward(flow, inputs[layer], 0)
        of_x = product(flow, weights[0]).to(grad.dtype) if ctx.needs_input_grad[0] else None
        pairs = zip(places, of_biases, strict=True)
        # The last reference to the places goes with this list: see StepMemory.gradients.
        del places
        return (of_x, None, None, None, *(tensor for pair in pairs for tensor in pair))


def _affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Multiply a batch (b × d) by a weight (e × d), and add a bias (e) where there is one."""
    return product(x, weight.T, None if bias is None else bias.to(x.dtype))
