"""What many methods begin with: auto-encoders that learn to reconstruct their views."""

from __future__ import annotations

from dwcl.losses import reconstruction
from dwcl.nn import AutoEncoders
from dwcl.training.batches import Batch
from dwcl.training.loop import LossTerms


def reconstruct(networks: AutoEncoders, batch: Batch) -> LossTerms:
    """Σ MSE of the views, for one batch of the pre-training."""
    by_view = reconstruction(batch.views, networks.decode(networks.encode(batch.views)))
    return LossTerms(by_view.sum(), {"reconstruction": by_view})
