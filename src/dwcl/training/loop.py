"""The one training loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from dwcl.nn import steps_in_place
from dwcl.streams import RandomStreams
from dwcl.training.batches import Batch, Source
from dwcl.training.callbacks import Callback, Record
from dwcl.training.checkpoint import Keeper, Snapshot
from dwcl.training.session import Interrupted, StopRequest

OptimiserReset: TypeAlias = Literal["never", "phase", "epoch"]


@dataclass(frozen=True)
class LossTerms:
    """A batch's loss: the total that is differentiated, and its parts for the history.

    A part is a scalar or a vector (for example one value per view), before any weight.
    """

    total: Tensor
    parts: dict[str, Tensor]


@dataclass(frozen=True)
class Position:
    """How far a run has come.

    Attributes
    ----------
    phases_over : tuple of str
        Names of the phases that have ended.
    epochs_over, steps_over : int
        In the phase at hand, and in its epoch at hand.
    seconds : float
        Time spent on the epoch at hand.
    """

    phases_over: tuple[str, ...] = ()
    epochs_over: int = 0
    steps_over: int = 0
    seconds: float = 0.0


class Trainer:
    """Runs phases of epochs over one data source with one optimiser.

    Parameters
    ----------
    networks : torch.nn.Module
        What is trained. A parameter that a phase's loss does not touch stays as it is.
    source : Source
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
    keeper : Keeper, optional
        Saves the state at the ends of phases, from time to time, and before a run is broken off.
        If it has restored a state, phases and computations that are over are passed by, and the
        run goes on as if it had never stopped.
    """

    def __init__(
        self,
        networks: nn.Module,
        source: Source,
        streams: RandomStreams,
        *,
        batch_size: int,
        learning_rate: float,
        optimiser_reset: OptimiserReset = "never",
        callbacks: Iterable[Callback] = (),
        stop: StopRequest | None = None,
        keeper: Keeper | None = None,
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
        self._keeper = keeper
        self._position = Position()
        self._sums: dict[str, Tensor] = {}
        self._results: dict[str, dict[str, Any]] = {}
        if keeper is not None and keeper.restored is not None:
            self._restore(keeper.restored)

    def phase(self, name: str, epochs: int, loss: Callable[[Batch], LossTerms]) -> None:
        """Minimise `loss` for so many epochs. Names of phases must differ."""
        if name in self._position.phases_over:
            return
        self.networks.train()
        with steps_in_place(self.networks) as self._begin_step:
            for epoch in range(self._position.epochs_over + 1, epochs + 1):
                began = time.perf_counter() - self._position.seconds
                means = self._epoch(name, epoch, loss)
                seconds = time.perf_counter() - began
                self.record(
                    {"event": "epoch", "phase": name, "epoch": epoch, **means, "seconds": seconds}
                )
                ended = self._reset == "epoch" or (self._reset == "phase" and epoch == epochs)
                # The moments of the first phase serve the second one, as in the reference of SEM.
                if ended and self._position.phases_over:
                    self._optimiser = self._new_optimiser()
                done = replace(self._position, epochs_over=epoch, steps_over=0, seconds=0.0)
                self._position = done
        self._optimiser.zero_grad(set_to_none=True)
        self._position = Position(phases_over=(*self._position.phases_over, name))
        self.save()

    def once(self, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the result of a computation between phases, which a resumed run does not repeat.

        Parameters
        ----------
        name : str
            Different for each computation.
        compute : callable
            Returns tensors and plain values (as JSON has them) by name.
        """
        if name not in self._results:
            self.check_stop()
            self._results[name] = compute()
        return self._results[name]

    def record(self, record: Record) -> None:
        """Put a record into the history and tell the callbacks."""
        self.history.append(record)
        for callback in self._callbacks:
            callback.on_record(record)

    def check_stop(self) -> None:
        """Break off, with the state saved, if the caller has asked for it."""
        if self._stop.is_set():
            self.save()
            raise Interrupted

    def save(self) -> None:
        """Save the state, if there is somebody to keep it."""
        if self._keeper is not None:
            self._keeper.save(self._snapshot())

    def _epoch(self, name: str, epoch: int, loss: Callable[[Batch], LossTerms]) -> Record:
        """One pass over the data; returns the means of the loss and its parts over the samples."""
        began = time.perf_counter() - self._position.seconds
        generator = self.streams.torch("shuffle", name, epoch)
        batches = self.source.epoch(self._batch_size, generator)
        # A resumed epoch has the same batches; those of the steps that are over are passed by.
        for step, batch in enumerate(batches, 1):
            if step <= self._position.steps_over:
                continue
            self.check_stop()
            self._step(batch, loss)
            seconds = time.perf_counter() - began
            self._position = replace(self._position, steps_over=step, seconds=seconds)
            if epoch == step == 1:
                # The loss before anything was learnt, which a growing one is measured by. It is
                # kept among the sums, to be in every checkpoint; n_samples cancels in the mean.
                first = self._sums["loss"] * (self.source.n_samples / len(batch))
                self._sums["first_loss"] = first
            if self._keeper is not None and self._keeper.due:
                self.save()
        sums, self._sums = self._sums, {}
        return {part: (value / self.source.n_samples).tolist() for part, value in sums.items()}

    def _step(self, batch: Batch, loss: Callable[[Batch], LossTerms]) -> None:
        """Learn from one batch, and add its losses up."""
        self._begin_step()
        self._optimiser.zero_grad(set_to_none=True)
        terms = loss(batch)
        torch.autograd.backward(terms.total)
        self._optimiser.step()
        # Added up as tensors: a number per step would make the loop wait for a GPU.
        for part, value in {"loss": terms.total, **terms.parts}.items():
            weighted = value.detach() * len(batch)
            self._sums[part] = self._sums[part] + weighted if part in self._sums else weighted

    def _snapshot(self) -> Snapshot:
        """Everything that the rest of the run depends on."""
        tensors = {f"networks.{name}": t for name, t in self.networks.state_dict().items()}
        tensors |= {f"sums.{part}": value for part, value in self._sums.items()}
        for index, moments in self._optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{index}.{name}": t for name, t in moments.items()}
        plain: dict[str, Any] = {}
        for name, result in self._results.items():
            plain[name] = {k: v for k, v in result.items() if not isinstance(v, Tensor)}
            tensors |= {
                f"results.{name}.{k}": v for k, v in result.items() if isinstance(v, Tensor)
            }
        return Snapshot(
            {name: tensor.detach().cpu() for name, tensor in tensors.items()},
            {
                "seed": self.streams.seed,
                "position": asdict(self._position),
                "results": plain,
                "history": self.history,
            },
        )

    def _restore(self, snapshot: Snapshot) -> None:
        """Take up a saved state."""
        device = next(self.networks.parameters()).device
        tensors = {name: tensor.to(device) for name, tensor in snapshot.tensors.items()}
        position = snapshot.plain["position"]
        self._position = Position(**{**position, "phases_over": tuple(position["phases_over"])})
        self.history = list(snapshot.plain["history"])
        self._results = {name: dict(plain) for name, plain in snapshot.plain["results"].items()}
        networks: dict[str, Tensor] = {}
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            kind, _, rest = name.partition(".")
            if kind == "networks":
                networks[rest] = tensor
            elif kind == "sums":
                self._sums[rest] = tensor
            elif kind == "optimiser":
                index, _, moment = rest.partition(".")
                moments.setdefault(int(index), {})[moment] = tensor
            else:
                result, _, key = rest.rpartition(".")
                self._results[result][key] = tensor
        self.networks.load_state_dict(networks)
        state = self._optimiser.state_dict()
        self._optimiser.load_state_dict({**state, "state": moments})

    def _new_optimiser(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.networks.parameters(), lr=self._learning_rate, fused=True)
