"""Training: the one loop of all methods, its data and its callbacks."""

from dwcl.training.batches import Batch, InMemory, Source, Streamed, choose
from dwcl.training.callbacks import Callback, Guard, Record, RunInfo
from dwcl.training.features import embed, feature_tables
from dwcl.training.loop import LossTerms, Trainer
from dwcl.training.session import in_session

__all__ = [
    "Batch",
    "Callback",
    "Guard",
    "InMemory",
    "LossTerms",
    "Record",
    "RunInfo",
    "Source",
    "Streamed",
    "Trainer",
    "choose",
    "embed",
    "feature_tables",
    "in_session",
]
