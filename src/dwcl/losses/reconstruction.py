"""How far a decoded view is from the view itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional


def reconstruction(xs: Sequence[Tensor], decoded: Sequence[Tensor]) -> Tensor:
    """Mean squared error over the entries of a batch, one value per view (V)."""
    return torch.stack(
        [functional.mse_loss(x_hat, x) for x, x_hat in zip(xs, decoded, strict=True)]
    )
