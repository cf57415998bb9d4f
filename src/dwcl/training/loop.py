"""The one training loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from dwcl.nn import steps_in_place
from dwcl.streams import RandomStreams
from dwcl.training.batches import Batch, Source
from dwcl.training.callbacks import Callback, Record
from dwcl.training.checkpoint import Keeper, Snapshot
from dwcl.training.phase import Loss, LossTerms, OptimiserReset, Phase
from dwcl.training.runtime import release_memory
from dwcl.training.session import Interrupted, StopRequest

__all__ = ["Loss", "LossTerms", "OptimiserReset", "Phase", "Position", "Trainer"]


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
        Of every phase.
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
        self._callbacks = tuple(callbacks)
        self._stop = stop or StopRequest()
        self._optimisers = {"main": self._new_optimiser()}
        self._keeper = keeper
        self._position = Position()
        self._place: tuple[str | int, ...] = ()
        self._sums: dict[str, Tensor] = {}
        self._results: dict[str, dict[str, Any]] = {}
        if keeper is not None and keeper.restored is not None:
            self._restore(keeper.restored)

    def phase(self, name: str, epochs: int, loss: Loss, **how: Any) -> None:
        """Minimise `loss` for so many epochs; see :class:`Phase` for what else can be said."""
        phase = Phase(name, epochs, loss, **how)
        if name in self._position.phases_over:
            return
        with (
            _only(self.networks, phase.trained),
            steps_in_place(self.networks) as self._begin_step,
        ):
            for epoch in range(self._position.epochs_over + 1, epochs + 1):
                began = time.perf_counter() - self._position.seconds
                means = self._epoch(phase, epoch)
                seconds = time.perf_counter() - began
                self.record(
                    {"event": "epoch", "phase": name, "epoch": epoch, **means, "seconds": seconds}
                )
                if phase.reset == "epoch" or (phase.reset == "phase" and epoch == epochs):
                    self._optimisers["main"] = self._new_optimiser()
                done = replace(self._position, epochs_over=epoch, steps_over=0, seconds=0.0)
                self._position = done
                # Within an epoch of one step there is nothing to go on with: see `_epoch`.
                if phase.whole and self._keeper is not None and self._keeper.due:
                    self.save()
        for parameter in self.networks.parameters():
            parameter.grad = None
        release_memory()  # gradients and windows: what comes between phases needs room of its own
        self._results.pop(_REFRESHED, None)
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

    def stream(self, purpose: str) -> torch.Generator:
        """Return the randomness of the step at hand for a purpose, such as noise."""
        return self.streams.torch(purpose, *self._place)

    @property
    def step(self) -> int:
        """Position within its epoch, from 1, of the step at hand."""
        return int(self._place[-1]) if self._place else 0

    def optimiser(
        self, name: str, parameters: Iterable[nn.Parameter], learning_rate: float
    ) -> torch.optim.Optimizer:
        """Make an optimiser of a method's own, which checkpoints keep with the one of the run.

        To be made before the first phase; whoever has it calls its ``step``.
        """
        made = torch.optim.Adam(list(parameters), lr=learning_rate, fused=True)
        self._optimisers[name] = made
        if self._keeper is not None and self._keeper.restored is not None:
            self._restore_moments(name, self._keeper.restored)
        return made

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

    def end(self) -> None:
        """Give back what only learning needs: the moments are twice as large as the networks."""
        self._optimisers.clear()
        release_memory()

    def _epoch(self, phase: Phase, epoch: int) -> Record:
        """One pass over the data; returns the means of the loss and its parts over the samples."""
        began = time.perf_counter() - self._position.seconds
        self._place = (phase.name, epoch, 0)
        refreshed = self._refreshed(phase, epoch)
        self.networks.train()
        seen = 0
        # A resumed epoch has the same batches; those of the steps that are over are passed by.
        for step, batch in enumerate(self._batches(phase, epoch), 1):
            seen += len(batch)
            if step <= self._position.steps_over:
                continue
            self._place = (phase.name, epoch, step)
            if not phase.whole:
                self.check_stop()
            self._step(phase, batch, refreshed, first=not phase.whole or step == 1)
            if epoch == step == 1:
                # The loss before anything was learnt, which a growing one is measured by. It is
                # kept among the sums, to be in every checkpoint.
                self._sums[_FIRST_LOSS] = self._sums["loss"] / len(batch)
            if phase.whole:
                continue  # half a step cannot be gone on with
            seconds = time.perf_counter() - began
            self._position = replace(self._position, steps_over=step, seconds=seconds)
            if self._keeper is not None and self._keeper.due:
                self.save()
        if phase.whole:
            self._optimisers["main"].step()
        sums, self._sums = self._sums, {}
        means = {part: value / seen for part, value in sums.items() if part != _FIRST_LOSS}
        means |= {part: sums[part] for part in (_FIRST_LOSS,) if part in sums}
        return {part: value.tolist() for part, value in means.items()}

    def _refreshed(self, phase: Phase, epoch: int) -> dict[str, Any]:
        """Compute what a phase takes anew for each epoch, or have it from the checkpoint."""
        if phase.refresh is None:
            return {}
        if self._position.steps_over == 0 or _REFRESHED not in self._results:
            self.check_stop()
            self._results[_REFRESHED] = phase.refresh(epoch)
        return self._results[_REFRESHED]

    def _batches(self, phase: Phase, epoch: int) -> Iterator[Batch]:
        """Yield the batches of an epoch."""
        source = phase.source or self.source
        if phase.batches is not None:
            yield from phase.batches(epoch)
            return
        if phase.whole:
            self.check_stop()
            start = 0
            for views in source.blocks(self._batch_size):
                stop = start + len(views[0])
                index = torch.arange(start, stop, device=views[0].device)
                yield Batch(
                    views, index if source.index is None else source.index.to(index.device)[index]
                )
                start = stop
            return
        generator = self.streams.torch("shuffle", phase.name, epoch)
        for step, batch in enumerate(source.epoch(self._batch_size, generator)):
            if step and phase.last_batch == "drop" and len(batch) < self._batch_size:
                return
            yield batch

    def _step(self, phase: Phase, batch: Batch, refreshed: dict[str, Any], *, first: bool) -> None:
        """Learn from one batch, or gather its share of a step, and add its losses up."""
        optimiser = self._optimisers["main"]
        if first:
            self._begin_step()
            optimiser.zero_grad(set_to_none=True)
        terms = phase.loss(batch, **refreshed)
        if phase.whole:
            share = len(batch) / (phase.source or self.source).n_samples
            torch.autograd.backward(terms.total * share)
        else:
            torch.autograd.backward(terms.total)
            optimiser.step()
        # Added up as tensors: a number per step would make the loop wait for a GPU.
        for part, value in {"loss": terms.total, **terms.parts}.items():
            weighted = value.detach() * len(batch)
            self._sums[part] = self._sums[part] + weighted if part in self._sums else weighted

    def _snapshot(self) -> Snapshot:
        """Everything that the rest of the run depends on."""
        tensors = {f"networks.{name}": t for name, t in self.networks.state_dict().items()}
        tensors |= {f"sums.{part}": value for part, value in self._sums.items()}
        for owner, optimiser in self._optimisers.items():
            for index, moments in optimiser.state_dict()["state"].items():
                tensors |= {f"optimiser.{owner}.{index}.{name}": t for name, t in moments.items()}
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
        tensors = {name: tensor.to(self._device) for name, tensor in snapshot.tensors.items()}
        position = snapshot.plain["position"]
        self._position = Position(**{**position, "phases_over": tuple(position["phases_over"])})
        self.history = list(snapshot.plain["history"])
        self._results = {name: dict(plain) for name, plain in snapshot.plain["results"].items()}
        networks: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            kind, _, rest = name.partition(".")
            if kind == "networks":
                networks[rest] = tensor
            elif kind == "sums":
                self._sums[rest] = tensor
            elif kind == "results":
                result, _, key = rest.rpartition(".")
                self._results[result][key] = tensor
        self.networks.load_state_dict(networks)
        self._restore_moments("main", snapshot)

    def _restore_moments(self, owner: str, snapshot: Snapshot) -> None:
        """Take up the saved moments of an optimiser."""
        moments: dict[int, dict[str, Tensor]] = {}
        prefix = f"optimiser.{owner}."
        for name, tensor in snapshot.tensors.items():
            if name.startswith(prefix):
                index, _, moment = name.removeprefix(prefix).partition(".")
                moments.setdefault(int(index), {})[moment] = tensor.to(self._device)
        optimiser = self._optimisers[owner]
        optimiser.load_state_dict({**optimiser.state_dict(), "state": moments})

    @property
    def _device(self) -> torch.device:
        return next(chain(self.networks.parameters(), self.networks.buffers())).device

    def _new_optimiser(self) -> torch.optim.Optimizer:
        # As a group, which may be empty: not every method has something to learn.
        group = {"params": list(self.networks.parameters())}
        return torch.optim.Adam([group], lr=self._learning_rate, fused=True)


_REFRESHED = "refreshed"
_FIRST_LOSS = "first_loss"


@contextmanager
def _only(networks: nn.Module, trained: tuple[nn.Parameter, ...] | None) -> Iterator[None]:
    """Hold all parameters of some networks but those that are to be trained."""
    if trained is None:
        yield
        return
    chosen = {id(parameter) for parameter in trained}
    held = [p for p in networks.parameters() if p.requires_grad and id(p) not in chosen]
    for parameter in held:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in held:
            parameter.requires_grad_(True)
