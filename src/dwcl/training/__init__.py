"""Training: the one loop of all methods, its data and its callbacks."""

from dwcl.training.batches import Batch, InMemory
from dwcl.training.callbacks import Callback, Guard, Record, RunInfo
from dwcl.training.loop import LossTerms, Trainer, embed
from dwcl.training.session import in_session

__all__ = [
    "Batch",
    "Callback",
    "Guard",
    "InMemory",
    "LossTerms",
    "Record",
    "RunInfo",
    "Trainer",
    "embed",
    "in_session",
]
