"""Networks and losses on the device ``meta``: shapes without numbers, the way to any device."""

from __future__ import annotations

import pytest
import torch

from dwcl import DWCL
from dwcl.clustering.neighbours import neighbour_shares
from dwcl.clustering.soft import sharpened
from dwcl.losses import (
    balanced_contrast,
    cluster_contrast,
    damped_infonce,
    deep_divergence,
    infonce,
    negative_entropy,
    pseudo_label_loss,
    reconstruction,
    rince,
    spectral,
)
from dwcl.nn import Precision, ViewNetworks, WeightedMean, resolve_precision, set_precision
from dwcl.training.batches import Batch
from dwcl.training.memory import count_parameters
from dwcl.views import Pair

META = torch.device("meta")


def networks(widths: tuple[int, ...]) -> ViewNetworks:
    with META:
        return ViewNetworks(
            widths,
            encoder=(8,),
            latent=6,
            decoder=(8,),
            embedding=4,
            generators=[torch.Generator() for _ in widths],
        )


def test_networks_of_any_size_are_laid_out_without_memory() -> None:
    made = networks((10**6, 5))
    assert all(parameter.is_meta for parameter in made.parameters())
    per_view = 8 + 8 * 6 + 6 + 6 * 8 + 8 + 6 * 4 + 4  # all but the two layers that know the width
    widths = 10**6 + 5
    assert count_parameters(made) == 2 * per_view + 2 * 8 * widths + widths


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_of_learning_has_a_path_on_another_device(precision: Precision) -> None:
    made = networks((5, 3)).train()
    set_precision(made, precision)
    batch = Batch([torch.empty(7, d, device=META) for d in (5, 3)], torch.empty(7, device=META))
    hs = made.encode(batch.views)
    assert [tuple(h.shape) for h in hs] == [(7, 6), (7, 6)]
    assert reconstruction(batch.views, made.decode(hs)).shape == (2,)
    terms = DWCL(2).contrast(made, [Pair(0, 0, 1, 1.0), Pair(1, 0, 1, 1.0)], batch)
    assert terms.total.is_meta
    torch.autograd.backward(terms.total)
    for parameter in made.parameters():
        assert parameter.grad is not None
        assert parameter.grad.shape == parameter.shape
        assert parameter.grad.dtype == torch.float32


def test_rows_of_the_loss_keep_their_shape_there() -> None:
    zs = [torch.empty(5, 4, device=META) for _ in range(3)]
    assert infonce(zs, [(0, 1), (2, 2)], 0.5).shape == (2, 10)


def test_auto_is_fp32_where_nothing_is_known_of_the_device() -> None:
    assert resolve_precision("auto", META) == "fp32"


def test_losses_of_other_methods_have_a_path_there() -> None:
    zs = [torch.empty(5, 4, device=META, requires_grad=True) for _ in range(3)]
    pairs = [(0, 1), (2, 2)]
    losses = [
        rince(zs, pairs, 0.5, exponent=0.5, density=0.001),
        spectral(zs, pairs),
        damped_infonce(zs, pairs, 0.5, neighbour_shares(zs[2], 2)),
        cluster_contrast(zs, pairs),
        cluster_contrast(zs, pairs, similarity="dot", negatives="own"),
        negative_entropy([sharpened(z) for z in zs]),
        pseudo_label_loss(zs, [torch.empty(5, dtype=torch.int64, device=META)] * 3),
        deep_divergence(zs[0], zs[1]),
        balanced_contrast(zs, pairs),
    ]
    assert [tuple(loss.shape) for loss in losses] == [
        (2, 10),
        (2, 5),
        (2, 10),
        (2, 8),
        (2, 8),
        (3,),
        (3, 5),
        (3,),
        (2,),
    ]
    torch.autograd.backward(sum(loss.sum() for loss in losses))
    assert all(z.grad is not None for z in zs)
    assert WeightedMean(3).to(META)(zs).shape == (5, 4)
