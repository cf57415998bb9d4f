"""One run of an experiment, from its data to a row of the store; it may take place anywhere."""

from __future__ import annotations

import functools
import hashlib
import json
import resource
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from threadpoolctl import threadpool_limits

from dwcl.errors import DataError, DwclError
from dwcl.experiments.extras import EXTRAS
from dwcl.experiments.spec import SHAPE, DataChoice, Trial
from dwcl.files import finite
from dwcl.training.callbacks import Callback, Record

if TYPE_CHECKING:
    from dwcl.data.multiview import MultiView

CHECKPOINT_SECONDS = 60.0
_PEAK = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")

State = Literal["done", "failed", "stopped"]


@dataclass(frozen=True)
class Outcome:
    """What came of a trial.

    Attributes
    ----------
    key : str
        Of everything that decides the result.
    state : str
        ``done``, ``failed``, or ``stopped`` by the end of the time, with a checkpoint to go on.
    facts : dict
        As in ``run.json``, with scores and peak memory.
    history : list of dict
        Of the training.
    error : str
        Why it failed.
    """

    key: str
    state: State
    facts: dict[str, Any] = field(default_factory=dict)
    history: list[Record] = field(default_factory=list)
    error: str = ""


class OutOfTime(Exception):  # noqa: N818 - it is the end of a budget, not an error
    """Raised when the time that an experiment may take is over."""


class _Deadline(Callback):
    """Ends a fit at a time of the day; what it was at is in its last checkpoint."""

    def __init__(self, deadline: float | None) -> None:
        self._deadline = deadline

    def on_record(self, record: Record) -> None:  # noqa: ARG002 - any event will do
        """Look at the clock."""
        if self._deadline is not None and time.time() >= self._deadline:
            raise OutOfTime


@functools.lru_cache(maxsize=2)
def load(data: DataChoice) -> MultiView:
    """Read a data set; the last two are kept, since runs on one follow each other."""
    from dwcl.data.fetch import resolve

    if data.source.startswith(SHAPE):
        return _drawn(data.source.removeprefix(SHAPE))
    views = None if data.views is None else list(data.views)
    return resolve(data.source, views=views, labels=data.labels, progress=False)


def _drawn(name: str) -> MultiView:
    """Draw data of the shape of an entry of the catalogue."""
    from dwcl.data.catalogue import find
    from dwcl.data.synthetic import make_multiview

    entry = find(name)
    if entry.n is None or entry.widths is None or entry.classes is None:
        raise DataError(f"The shape of '{entry.name}' is not known; no data can be drawn like it.")
    return make_multiview(entry.n, entry.classes, widths=entry.widths, random_state=0)


def make_model(trial: Trial, data: MultiView) -> Any:
    """Make the unfitted estimator of a trial; runs side by side have a thread each."""
    from dwcl.methods.registry import get_method

    clusters = trial.data.clusters or data.n_label_values
    if clusters is None or clusters < 2:
        raise DataError(
            f"The data '{trial.data.title}' have no labels to take the number of clusters from; "
            "state it in the specification: clusters = K."
        )
    settings = {"threads": 1, **trial.settings}
    return get_method(trial.method)(clusters, random_state=trial.seed, **settings)


def key_of(trial: Trial) -> str:
    """Hash everything that decides the result of a trial: data, method, settings, versions."""
    from dwcl.storage.run import versions

    data = load(trial.data)
    model = make_model(trial, data)
    identity = {**model._identity(data), "labels": _fingerprint(data), "versions": versions()}
    if trial.extras:
        identity["extras"] = sorted(trial.extras)
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _fingerprint(data: MultiView) -> str | None:
    """Hash the known classes: the scores depend on them, and the clusters do not."""
    if data.labels is None:
        return None
    return hashlib.sha256(json.dumps([str(label) for label in data.labels]).encode()).hexdigest()


def run_trial(trial: Trial, key: str, folder: Path, deadline: float | None = None) -> Outcome:
    """Fit and score; a failure is an outcome too, with its reason.

    Parameters
    ----------
    trial, key : Trial, str
        What to do, and its name in the store.
    folder : Path
        For the checkpoints, from which a trial that was broken off goes on.
    deadline : float, optional
        Time (as :func:`time.time` has it) after which it stops at the end of an epoch.
    """
    from dwcl.evaluate.summary import score_model
    from dwcl.storage.run import describe_run
    from dwcl.training.checkpoint import Checkpoints

    began = time.perf_counter()
    try:
        data = load(trial.data)
        model = make_model(trial, data)
        earlier = _Earlier()
        _forget_peak()
        with threadpool_limits(1):  # of the libraries beside PyTorch
            model.fit(
                data,
                callbacks=[earlier, _Deadline(deadline)],
                checkpoint=Checkpoints(folder, CHECKPOINT_SECONDS),
            )
        facts = {
            **describe_run(model, data),
            "recipe": trial.recipe,
            "seconds_total": round(earlier.seconds + time.perf_counter() - began, 3),
            "peak_memory": _peak_memory(),
        }
        if data.labels is not None:
            facts["scores"] = score_model(model, data.labels)
            facts |= {name: EXTRAS[name](model, data) for name in trial.extras}
    except OutOfTime:
        return Outcome(key, "stopped")
    except (DwclError, MemoryError, ValueError, RuntimeError) as failure:
        return Outcome(key, "failed", error=f"{type(failure).__name__}: {failure}")
    return Outcome(key, "done", finite(facts), finite(model.history_))


class _Earlier(Callback):
    """Keeps what epochs took that a run before this one had behind it."""

    seconds = 0.0

    def on_start(self, info: Any) -> None:
        """Add their times up."""
        self.seconds = sum(record["seconds"] for record in info.past_epochs)


def _forget_peak() -> None:
    """Begin to measure the peak anew: a process does one run after the other."""
    try:
        _PEAK.write_text("5")
    except OSError:  # not on Linux, or not allowed: then it is the peak of the process so far
        return


def _peak_memory() -> int:
    """Greatest resident memory in bytes."""
    try:
        lines = _STATUS.read_text("ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def size_of(trial: Trial) -> int:
    """Count the entries of the data: small runs go first."""
    data = load(trial.data)
    return data.n_samples * sum(data.widths)
