"""Checkpoints: the whole state of a training run on disk, so that nothing of it is ever lost.

A checkpoint is a pair of files, tensors and a description with the hash of both. The description
is written last: a checkpoint without it, or with one that does not fit, is none. The last two that
are whole are kept, so that one can be damaged without loss.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from dwcl.errors import FileError, ModelError
from dwcl.files import locked, sha256_of, write_tensors, write_text

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
KEPT = 2
LOCK = "lock"
_NAME = re.compile(r"checkpoint-(\d{6,})\.json")
_JUDGED = ("networks.", "optimiser.", "sums.")
"""Tensors that must be finite; results may hold what is no number, such as an unknown quality."""


@dataclass(frozen=True)
class Snapshot:
    """The state of a run at one moment: tensors, and everything else as plain values."""

    tensors: dict[str, Tensor]
    plain: dict[str, Any]


@dataclass(frozen=True)
class Checkpoints:
    """How a fit keeps checkpoints.

    Attributes
    ----------
    folder : str or Path
        Where to; made if need be.
    every : float
        Seconds between checkpoints; there is one at the end of each phase in any case.
    keep : bool
        Whether they stay when the fit has ended. The same fit is then over at once when repeated.
    """

    folder: str | Path
    every: float = 300.0
    keep: bool = False


class CheckpointStore:
    """A folder with the checkpoints of one run.

    Parameters
    ----------
    folder : Path
        Made if need be.
    identity : dict
        What decides the run's result: method, settings, data. A folder with checkpoints of another
        run is refused rather than mixed up.
    """

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.folder = folder
        self._identity = identity
        self._damaged: set[int] = set()

    def save(self, snapshot: Snapshot) -> None:
        """Write a checkpoint, then remove the ones that are no longer needed.

        If it cannot be written, the ones before stay.
        """
        numbers = self._numbers()
        number = numbers[-1] + 1 if numbers else 1
        tensors, description = self._paths(number)
        try:
            body = {
                "format": FORMAT_VERSION,
                "identity": self._identity,
                "tensors": write_tensors(tensors, snapshot.tensors),
                "plain": snapshot.plain,
            }
            write_text(description, json.dumps({"digest": _digest(body), **body}))
        except OSError:
            with suppress(OSError):  # they would take the room of the next attempt
                tensors.unlink()
            raise
        # A damaged one does not count as one of the two that are to be there.
        whole = [n for n in (*numbers, number) if n not in self._damaged]
        for old in set(numbers).difference(whole[-KEPT:]):
            self._remove(old)

    def latest(self) -> Snapshot | None:
        """Read the newest checkpoint that is whole; None where there is none at all.

        Raises
        ------
        ModelError
            If there are checkpoints and all are damaged: to begin anew is for the user to say.
        """
        failures: dict[int, str] = {}
        for number in reversed(self._numbers()):
            try:
                found = self._load(number)
            except (_Damaged, OSError, SafetensorError) as failure:
                failures[number] = str(failure)
                continue
            for damaged, what in failures.items():
                logger.warning(
                    "Checkpoint %d in %s is damaged (%s); the one before it is used.",
                    damaged,
                    self.folder,
                    what,
                )
            self._damaged = set(failures)
            return found
        if failures:
            each = "; ".join(f"number {n}: {what}" for n, what in failures.items())
            raise ModelError(
                f"No checkpoint in {self.folder} is whole ({each}), so the run cannot go on from "
                "there. Put a copy of the folder in its place if there is one. To begin anew, "
                "remove the checkpoints, or give --force to 'dwcl fit'."
            )
        return None

    def clear(self) -> None:
        """Remove all checkpoints, once the run has ended."""
        for number in self._numbers():
            self._remove(number)
        self._sweep()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other runs out of the folder; the system frees the lock when the process ends."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            raise FileError(
                f"Checkpoints cannot be written to {self.folder}: {failure.strerror}. "
                "Choose a folder that you may write to."
            ) from failure
        with locked(self.folder / LOCK):
            self._sweep()
            yield

    def _load(self, number: int) -> Snapshot:
        tensors, description = self._paths(number)
        try:
            body = json.loads(description.read_text("utf-8"))
            digest = body.pop("digest")
            plain, identity = body["plain"], body["identity"]
        except (ValueError, KeyError, TypeError, AttributeError) as failure:
            raise _Damaged(f"its description is garbled: {failure}") from failure
        if digest != _digest(body):
            raise _Damaged("its description has changed since it was written")
        if body["format"] != FORMAT_VERSION:
            raise ModelError(
                f"The checkpoints in {self.folder} have format {body['format']}; this version of "
                f"dwcl reads format {FORMAT_VERSION}. Resume with the version that wrote them."
            )
        if identity != self._identity:
            raise ModelError(self._word_difference(identity))
        if body["tensors"] != sha256_of(tensors):
            raise _Damaged("its tensors have changed since they were written")
        return Snapshot(load_file(tensors), plain)

    def _word_difference(self, found: dict[str, Any]) -> str:
        names = sorted(
            name
            for name in {*found, *self._identity}
            if found.get(name) != self._identity.get(name)
        )
        return (
            f"The checkpoints in {self.folder} belong to another run: {', '.join(names)} differ. "
            "Go on with the same data and settings, or choose another folder."
        )

    def _remove(self, number: int) -> None:
        # The description goes first: without it, the rest is none.
        for path in reversed(self._paths(number)):
            path.unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Remove what a process left that was killed while it wrote: it can be large.

        Only the holder of the lock may do so.
        """
        described = {self._paths(number)[0] for number in self._numbers()}
        unfinished = set(self.folder.glob("checkpoint-*.safetensors")) - described
        for path in (*unfinished, *self.folder.glob(".checkpoint-*")):
            path.unlink(missing_ok=True)

    def _numbers(self) -> list[int]:
        found = (_NAME.fullmatch(path.name) for path in self.folder.glob("checkpoint-*.json"))
        return sorted(int(match[1]) for match in found if match)

    def _paths(self, number: int) -> tuple[Path, Path]:
        stem = f"checkpoint-{number:06d}"
        return self.folder / f"{stem}.safetensors", self.folder / f"{stem}.json"


class Keeper:
    """Decides when a run's state is saved, and sees to it that a failure to do so is no end.

    Parameters
    ----------
    store : CheckpointStore
        Where to.
    every : float
        Seconds after which a checkpoint is due.
    """

    def __init__(self, store: CheckpointStore, every: float) -> None:
        self.restored = store.latest()
        self._store = store
        self._every = every
        self._saved = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() - self._saved >= self._every

    def save(self, snapshot: Snapshot) -> None:
        """Save; if that fails, say so and keep what was saved before.

        A state with numbers that are not finite is not worth keeping in place of a good one.
        """
        self._saved = time.monotonic()
        judged = (t for name, t in snapshot.tensors.items() if name.startswith(_JUDGED))
        if not all(bool(tensor.isfinite().all()) for tensor in judged):
            return
        try:
            self._store.save(snapshot)
        except OSError as failure:
            logger.warning(
                "The state of the run could not be saved, and what was saved before is kept: %s",
                failure,
            )


class _Damaged(Exception):  # noqa: N818 - it never leaves this module
    """A checkpoint does not have the content that was written."""


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
