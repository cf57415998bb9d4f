"""What a method says of a phase of its training, and what comes out of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from torch import Tensor, nn

from dwcl.training.batches import Batch, Source

OptimiserReset: TypeAlias = Literal["never", "phase", "epoch"]
"""When Adam is made anew, with empty moments: never, after a phase, or after each of its epochs."""

Loss: TypeAlias = Callable[..., "LossTerms"]
"""From a batch, and what the phase refreshes (by name), to its loss."""


@dataclass(frozen=True)
class LossTerms:
    """A batch's loss: the total that is differentiated, and its parts for the history.

    A part is a scalar or a vector (for example one value per view), before any weight.
    """

    total: Tensor
    parts: dict[str, Tensor]


@dataclass(frozen=True)
class Phase:
    """How a phase learns.

    Attributes
    ----------
    name : str
        Different for each phase.
    epochs : int
        How many.
    loss : callable
        Gives the :class:`LossTerms` of a batch.
    source : Source or None
        Data of its own, in place of those of the whole run.
    reset : {"never", "phase", "epoch"}
        When the optimiser is made anew. The first phase of a run usually keeps its moments for the
        second one.
    trained : sequence of torch.nn.Parameter or None
        The parameters that learn; the others are held. None: all of them.
    refresh : callable or None
        Computes at the beginning of each epoch, from its number, what the loss takes beside the
        batch: tensors and plain values by name. An epoch that is gone on with has them as they
        were.
    last_batch : {"keep", "drop"}
        What becomes of a last batch that is short. The only batch of an epoch always stays.
    batches : callable or None
        Gives the batches of an epoch by its number, always the same ones, in place of a pass over
        the source. They need not be each of a sample once.
    whole : bool
        Whether an epoch is one step on all samples in their order: gradients of its batches are
        added up, each in proportion to its size.
    """

    name: str
    epochs: int
    loss: Loss
    source: Source | None = None
    reset: OptimiserReset = "never"
    trained: tuple[nn.Parameter, ...] | None = None
    refresh: Callable[[int], dict[str, Any]] | None = None
    last_batch: Literal["keep", "drop"] = "keep"
    batches: Callable[[int], Iterator[Batch]] | None = None
    whole: bool = False
