"""The one training loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from dwcl.streams import RandomStreams
from dwcl.training.batches import Batch, InMemory
from dwcl.training.callbacks import Callback, Record
from dwcl.training.session import Interrupted, StopRequest

OptimiserReset: TypeAlias = Literal["never", "phase", "epoch"]

# Rows that go through the networks at once when nothing is learnt. Every block has this many, the
# last one filled up with zeros: the matrix products then have one shape, whatever the number of
# samples, and a sample's embedding does not depend on which samples it came with.
EMBEDDING_ROWS = 256


@dataclass(frozen=True)
class LossTerms:
    """A batch's loss: the total that is differentiated, and its parts for the history.

    A part is a scalar or a vector (for example one value per view), before any weight.
    """

    total: Tensor
    parts: dict[str, Tensor]


class Trainer:
    """Runs phases of epochs over one data source with one optimiser.

    Parameters
    ----------
    networks : torch.nn.Module
        What is trained. A parameter that a phase's loss does not touch stays as it is.
    source : InMemory
        The data.
    streams : RandomStreams
        Randomness of the shuffles.
    batch_size, learning_rate : int, float
        Of every phase. The last batch of an epoch may be short.
    optimiser_reset : {"never", "phase", "epoch"}
        When Adam is made anew, with empty moments: after each phase or epoch but those of the
        first phase, whose moments serve the second.
    callbacks : iterable of Callback
        Told of every record.
    stop : StopRequest, optional
        Looked at between steps.
    """

    def __init__(
        self,
        networks: nn.Module,
        source: InMemory,
        streams: RandomStreams,
        *,
        batch_size: int,
        learning_rate: float,
        optimiser_reset: OptimiserReset = "never",
        callbacks: Iterable[Callback] = (),
        stop: StopRequest | None = None,
    ) -> None:
        self.networks = networks
        self.source = source
        self.streams = streams
        self.history: list[Record] = []
        self._batch_size = batch_size
        self._learning_rate = learning_rate
        self._reset: OptimiserReset = optimiser_reset
        self._callbacks = tuple(callbacks)
        self._stop = stop or StopRequest()
        self._optimiser = self._new_optimiser()
        self._phases_run = 0

    def phase(self, name: str, epochs: int, loss: Callable[[Batch], LossTerms]) -> None:
        """Minimise `loss` for so many epochs."""
        self.networks.train()
        for epoch in range(1, epochs + 1):
            began = time.perf_counter()
            means = self._epoch(name, epoch, loss)
            seconds = time.perf_counter() - began
            self.record(
                {"event": "epoch", "phase": name, "epoch": epoch, **means, "seconds": seconds}
            )
            ended = self._reset == "epoch" or (self._reset == "phase" and epoch == epochs)
            # The moments of the first phase serve the second one, as in the reference of SEM.
            if ended and self._phases_run:
                self._optimiser = self._new_optimiser()
        self._phases_run += 1

    def record(self, record: Record) -> None:
        """Put a record into the history and tell the callbacks."""
        self.history.append(record)
        for callback in self._callbacks:
            callback.on_record(record)

    def check_stop(self) -> None:
        """Break off if the caller has asked for it."""
        if self._stop.is_set():
            raise Interrupted

    def _epoch(self, name: str, epoch: int, loss: Callable[[Batch], LossTerms]) -> Record:
        """One pass over the data; returns the means of the loss and its parts over the samples."""
        sums: dict[str, Tensor] = {}
        generator = self.streams.torch("shuffle", name, epoch)
        for batch in self.source.epoch(self._batch_size, generator):
            self.check_stop()
            terms = loss(batch)
            self._optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(terms.total)
            self._optimiser.step()
            # Added up as tensors: a number per step would make the loop wait for a GPU.
            for part, value in {"loss": terms.total, **terms.parts}.items():
                weighted = value.detach() * len(batch)
                sums[part] = sums[part] + weighted if part in sums else weighted
        return {part: (value / self.source.n_samples).tolist() for part, value in sums.items()}

    def _new_optimiser(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.networks.parameters(), lr=self._learning_rate, fused=True)


def embed(
    networks: nn.Module, source: InMemory, forward: Callable[[list[Tensor]], Sequence[Tensor]]
) -> list[Tensor]:
    """Send all samples through `forward` in their order, without gradients, in single precision.

    Parameters
    ----------
    networks : torch.nn.Module
        What `forward` uses; put into evaluation mode.
    source : InMemory
        The samples.
    forward : callable
        From the views of a block to one or more tensors with a row per sample.

    Returns
    -------
    list of Tensor
        The outputs of `forward`, n rows each.
    """
    networks.eval()
    outputs: list[list[Tensor]] = []
    with torch.no_grad():
        for block in source.blocks(EMBEDDING_ROWS):
            rows = len(block[0])
            missing = EMBEDDING_ROWS - rows
            filled = [functional.pad(x, (0, 0, 0, missing)) for x in block] if missing else block
            outputs.append([out[:rows] for out in forward(filled)])
    return [torch.cat(parts) for parts in zip(*outputs, strict=True)]
