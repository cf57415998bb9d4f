"""What many methods begin with: auto-encoders that learn to reconstruct their views."""

from __future__ import annotations

from dwcl.losses import reconstruction
from dwcl.nn import AutoEncoders, Corruption
from dwcl.training.batches import Batch
from dwcl.training.loop import LossTerms


def reconstruct(
    networks: AutoEncoders, batch: Batch, *, corrupt: Corruption | None = None
) -> LossTerms:
    """Σ MSE of the views, for one batch of the pre-training; of corrupted copies, if need be."""
    given = batch.views if corrupt is None else corrupt(batch.views)
    by_view = reconstruction(batch.views, networks.decode(networks.encode(given)))
    return LossTerms(by_view.sum(), {"reconstruction": by_view})
