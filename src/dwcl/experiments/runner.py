"""Run an experiment: in parallel, within a time, and from where it stopped."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import joblib
from joblib.externals.loky.process_executor import TerminatedWorkerError

from dwcl.errors import TrainingError
from dwcl.experiments.spec import Spec, Trial, trials
from dwcl.experiments.store import Store
from dwcl.experiments.trial import Outcome, key_of, run_trial, size_of


@dataclass(frozen=True)
class Progress:
    """How far an experiment has come.

    Attributes
    ----------
    done, failed, total : int
        Runs that are over (failed ones among them), and all of them.
    last : Trial or None
        What was over last.
    outcome : Outcome or None
        And what came of it.
    seconds_left : float or None
        Estimate; None while nothing is known.
    """

    done: int
    failed: int
    total: int
    last: Trial | None = None
    outcome: Outcome | None = None
    seconds_left: float | None = None


def run_experiment(
    spec: Spec,
    store: Store,
    *,
    jobs: int = 1,
    hours: float | None = None,
    retry: bool = False,
    watch: Callable[[Progress], None] | None = None,
) -> Progress:
    """Run what is not in the store yet, small data first; every run goes into it as it ends.

    Parameters
    ----------
    spec : Spec
        The experiment.
    store : Store
        Where the results are and go; the checkpoints of runs at hand lie beside it.
    jobs : int
        Runs side by side, each with one thread. Another joblib backend than processes of this
        machine serves as well: ``with joblib.parallel_config("dask"): …``.
    hours : float, optional
        After this time nothing new is begun, and the runs at hand stop with their checkpoints.
    retry : bool
        Whether failed runs are tried again.
    watch : callable
        Told of the beginning and of each run that is over.
    """
    return run_trials(
        spec.title, trials(spec), store, jobs=jobs, hours=hours, retry=retry, watch=watch
    )


def run_trials(
    title: str,
    wanted: Sequence[Trial],
    store: Store,
    *,
    jobs: int = 1,
    hours: float | None = None,
    retry: bool = False,
    watch: Callable[[Progress], None] | None = None,
) -> Progress:
    """Run trials under the title of an experiment; see :func:`run_experiment`."""
    deadline = None if hours is None else time.time() + 3600 * hours
    named = [(trial, key_of(trial)) for trial in wanted]
    store.enter(title, named)
    by_key = {key: trial for trial, key in named}
    over = _over(store, by_key, retry=retry)
    todo = sorted((key for key in by_key if key not in over), key=lambda key: size_of(by_key[key]))
    workshop = Path(f"{store.path}.unfinished")
    states = store.states()
    failed = sum(states[key] == "failed" for key in over)
    progress = Progress(len(over), failed, len(by_key))
    tell = watch or (lambda _: None)
    tell(progress)
    clock = _Clock(store, by_key, todo, jobs)
    for outcome in _outcomes(by_key, todo, workshop, jobs, deadline):
        if outcome.state == "stopped":
            continue
        trial = by_key[outcome.key]
        store.save(trial, outcome)
        shutil.rmtree(workshop / outcome.key[:16], ignore_errors=True)
        progress = Progress(
            progress.done + 1,
            progress.failed + (outcome.state == "failed"),
            progress.total,
            trial,
            outcome,
            clock.left(outcome.key),
        )
        tell(progress)
    if workshop.is_dir() and not any(workshop.iterdir()):
        workshop.rmdir()
    return progress


def _over(store: Store, by_key: dict[str, Trial], *, retry: bool) -> set[str]:
    """Name the runs that need not be done."""
    states = store.states()
    fine = {"done"} if retry else {"done", "failed"}
    return {key for key in by_key if states.get(key) in fine}


def _outcomes(
    by_key: dict[str, Trial],
    todo: Sequence[str],
    workshop: Path,
    jobs: int,
    deadline: float | None,
) -> Iterator[Outcome]:
    """Run trials side by side; gives what came of each as soon as it is known."""

    def calls() -> Iterator[tuple[Callable[..., Outcome], tuple[object, ...], dict[str, object]]]:
        for key in todo:
            if deadline is not None and time.time() >= deadline:
                return
            yield joblib.delayed(run_trial)(by_key[key], key, workshop / key[:16], deadline)

    if not todo:
        return
    workshop.mkdir(exist_ok=True)
    # A run is handed out when a worker is free: after the deadline there are none waiting.
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", pre_dispatch="n_jobs")
    try:
        yield from parallel(calls())
    except TerminatedWorkerError:
        raise TrainingError(
            "A process that ran a method was killed from outside, as systems do that run out of "
            "memory. What was finished is in the store; begin again with fewer --jobs."
        ) from None


class _Clock:
    """Estimates the time left: by runs of the same method and data, else by all so far."""

    def __init__(
        self, store: Store, by_key: dict[str, Trial], todo: Sequence[str], jobs: int
    ) -> None:
        self._store, self._by_key = store, by_key
        self._open = dict.fromkeys(todo)
        self._jobs = jobs if jobs > 0 else os.cpu_count() or 1

    def left(self, over: str) -> float | None:
        """Return an estimate once another run is over."""
        self._open.pop(over, None)
        known = self._store.seconds()
        if not known:
            return None
        usual = sum(known.values()) / len(known)
        return (
            sum(
                known.get((self._by_key[key].method, self._by_key[key].data.title), usual)
                for key in self._open
            )
            / self._jobs
        )
