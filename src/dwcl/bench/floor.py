"""The floor of a training step: its matrix products alone, and the optimiser's step alone.

No engine can be faster than that with the same arithmetic libraries; floor / actual is therefore
the efficiency of an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor

from dwcl.nn import Precision, ViewNetworks
from dwcl.products import product

Product = tuple[Tensor, Tensor, Tensor]
"""Two operands and the place for their product."""


def layer_widths(
    width: int,
    *,
    heads: bool,
    encoder: Sequence[int] = (500, 500, 2000),
    latent: int = 512,
    embedding: int = 128,
) -> list[tuple[int, int, bool]]:
    """List (inputs, outputs, whether it is a first layer) of the layers that a view's step uses."""
    chain = (width, *encoder, latent, *reversed(encoder), width)
    layers = [(a, b, position == 0) for position, (a, b) in enumerate(pairwise(chain))]
    return [*layers, (latent, embedding, False)] if heads else layers


def step_products(
    widths: Sequence[int], batch: int, precision: Precision, *, contrast: bool
) -> list[Product]:
    """Lay out the operands of all products of one step.

    Of every layer the forward product, the gradient of the weights, and, except in first layers,
    the gradient of the input. Of the contrast with the best view the Gram blocks, and for their
    gradients one product per view and two per pair, in single precision as in the engine.
    """
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    generator = torch.Generator().manual_seed(0)
    rand = partial(torch.rand, generator=generator)
    products: list[Product] = []
    for width in widths:
        for inputs, outputs, first in layer_widths(width, heads=contrast):
            x = rand(batch, inputs).to(dtype)
            w = rand(outputs, inputs).to(dtype)
            y = rand(batch, outputs).to(dtype)
            products.append((x, w.T, torch.empty(batch, outputs, dtype=dtype)))
            products.append((y.T, x, torch.empty(outputs, inputs, dtype=dtype)))
            if not first:
                products.append((y, w, torch.empty(batch, inputs, dtype=dtype)))
    if contrast:
        z = rand(batch, 128)
        gram = rand(batch, batch)
        grams, gradients = 2 * len(widths) - 1, 3 * len(widths)
        products += [(z, z.T, torch.empty(batch, batch))] * grams
        products += [(gram, z, torch.empty(batch, 128))] * gradients
    return products


def floor_step(
    networks: ViewNetworks,
    widths: Sequence[int],
    batch: int,
    precision: Precision,
    *,
    contrast: bool,
) -> Callable[[], None]:
    """Make a function that does the floor's work for one step."""
    products = step_products(widths, batch, precision, contrast=contrast)
    trained = [
        parameter
        for name, parameter in networks.named_parameters()
        if contrast or not name.startswith("heads")
    ]
    for parameter in trained:
        parameter.grad = torch.zeros_like(parameter)
    optimiser = torch.optim.Adam(trained, lr=0.0, fused=True)

    def step() -> None:
        for left, right, out in products:
            product(left, right, out=out)
        optimiser.step()

    return step
