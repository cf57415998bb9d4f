"""The floor counts the products that a step cannot do without, and no others."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dwcl import products
from dwcl.bench.floor import floor_step, layer_widths, step_products
from dwcl.bench.naive import make_networks
from dwcl.methods.dwcl import DWCL, reconstruct
from dwcl.nn import Precision
from dwcl.training.batches import Batch
from dwcl.views import Pair


def test_layers_of_a_view() -> None:
    assert layer_widths(20, heads=True) == [
        (20, 500, True), (500, 500, False), (500, 2000, False), (2000, 512, False),
        (512, 2000, False), (2000, 500, False), (500, 500, False), (500, 20, False),
        (512, 128, False),
    ]  # fmt: skip
    assert len(layer_widths(20, heads=False)) == 8


@pytest.mark.parametrize("contrast", [False, True])
def test_the_engine_s_step_has_the_floor_s_products(
    contrast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As counted by PyTorch in a real step of the engine."""
    # PyTorch counts only the products that it makes itself.
    monkeypatch.setattr(products, "_onednn_is_faster", lambda: False)
    widths, b = (20, 59), 16
    networks = make_networks(widths)
    batch = Batch([torch.rand(b, d) for d in widths], torch.arange(b))
    pairs = [Pair(v, 0, 1, 1.0) for v in range(len(widths))]
    with FlopCounterMode(display=False) as counter:
        terms = (
            DWCL().contrast(networks, pairs, batch) if contrast else reconstruct(networks, batch)
        )
        torch.autograd.backward(terms.total)
    floor = sum(
        2 * left.shape[0] * left.shape[1] * right.shape[1]
        for left, right, _ in step_products(widths, b, "fp32", contrast=contrast)
    )
    assert counter.get_total_flops() == floor


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_floor_runs_and_leaves_the_weights(precision: Precision) -> None:
    networks = make_networks((5,))
    before = [p.clone() for p in networks.parameters()]
    floor_step(networks, (5,), 8, precision, contrast=True)()
    for now, then in zip(networks.parameters(), before, strict=True):
        assert torch.equal(now, then)
