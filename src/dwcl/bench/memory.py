"""Peak memory of a fit whose data are larger than it, and what reading by batches costs in time.

Each figure is taken in a process of its own (``python -m dwcl.bench.memory``), whose peak is its
own; processes that share one report the peak of whoever was the greediest.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dwcl.bench.clustering import blobs
from dwcl.bench.naive import make_networks
from dwcl.bench.report import Figure, alternate
from dwcl.errors import DataError, FileError

CIFAR10 = (60_000, (3072, 5376, 512, 5376, 5376, 1239, 5376))
"""Samples and widths of the largest data set of the paper: 6.3 GB in single precision."""
FITTING = 6_144
"""Samples of the same widths that fit into memory, for the comparison of times."""
CLUSTERS = 10
PEAK_TARGET, TIME_TARGET, SILHOUETTE_TARGET = 2.5e9, 1.3, 400e6
_STATUS = Path("/proc/self/status")


def measure_memory(
    *,
    n_samples: int = CIFAR10[0],
    widths: Sequence[int] = CIFAR10[1],
    fitting: int = FITTING,
    silhouette: int = 60_000,
    epochs: int = 1,
    rounds: int = 3,
    threads: int | None = None,
) -> tuple[list[Figure], dict[str, float]]:
    """Measure a streamed fit, the time of a streamed epoch, and an exact silhouette.

    Returns
    -------
    list of Figure, dict of str to float
        The time per epoch, streamed against in memory; and facts with their targets in the names.
    """
    facts: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="dwcl-bench-") as name:
        folder = Path(name)
        write_views(folder / "all", n_samples, widths)
        fit = _in_process("fit", str(folder / "all"), str(epochs), str(threads))
        facts["GB of the data in single precision"] = 4e-9 * n_samples * sum(widths)
        facts[f"GB at the peak of a fit (target < {PEAK_TARGET / 1e9:g})"] = fit["peak"] / 1e9
        for phase, seconds in fit["seconds"].items():
            facts[f"seconds per epoch, {phase}"] = seconds
        facts["seconds of the whole fit"] = fit["seconds_total"]
        write_views(folder / "some", fitting, widths)
        epoch = _in_process("epochs", str(folder / "some"), str(rounds), str(threads))
    found = _in_process("silhouette", str(silhouette), str(threads))
    facts[
        f"MB that an exact silhouette adds, n = {silhouette:,} "
        f"(target < {SILHOUETTE_TARGET / 1e6:g})"
    ] = found["extra"] / 1e6
    ours, theirs = epoch["streamed"], epoch["in memory"]
    facts[f"time of a streamed epoch over one in memory (target ≤ {TIME_TARGET})"] = ours / theirs
    what = f"pretrain epoch, {fitting:,} samples of these widths, from disk"
    return [Figure(what, ours, theirs, theirs / ours, "in memory", 1 / TIME_TARGET)], facts


def write_views(folder: Path, n_samples: int, widths: Sequence[int], *, rows: int = 500) -> None:
    """Write views of overlapping groups as ``.npy`` files, block by block."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    labels = rng.integers(CLUSTERS, size=n_samples)
    try:
        for position, width in enumerate(widths, 1):
            centres = rng.random((CLUSTERS, width), dtype=np.float32)
            with (folder / f"view{position}.npy").open("wb") as file:
                head = {"descr": "<f4", "fortran_order": False, "shape": (n_samples, width)}
                np.lib.format.write_array_header_1_0(file, head)
                for start in range(0, n_samples, rows):
                    chosen = labels[start : start + rows]
                    noise = rng.random((len(chosen), width), dtype=np.float32)
                    file.write((centres[chosen] + noise).data)
    except OSError as failure:
        raise FileError(
            f"Cannot write {folder}: {failure.strerror}. The measurement needs "
            f"{4e-9 * n_samples * sum(widths):.1f} GB in the folder for temporary files; name "
            "another one with the variable TMPDIR."
        ) from failure


def _in_process(*arguments: str) -> Any:
    """Run one measurement in a process of its own; returns what it printed."""
    command = [sys.executable, "-m", "dwcl.bench.memory", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise DataError(f"The measurement '{arguments[0]}' failed: {last}")
    return json.loads(done.stdout)


# -- in a process of its own -----------------------------------------------------------------------


def _fit(folder: str, epochs: str, threads: str) -> Mapping[str, Any]:
    import time

    import dwcl
    from dwcl.storage.run import seconds_by_phase

    count = int(epochs)
    model = dwcl.DWCL(
        CLUSTERS,
        pretrain_epochs=count,
        iterations=1,
        epochs=count,
        threads=_number(threads),
        random_state=0,
    )
    began = time.perf_counter()
    model.fit(dwcl.read(folder))
    total = time.perf_counter() - began
    seconds = {phase: s / count for phase, s in seconds_by_phase(model.history_).items()}
    return {"peak": peak_memory(), "seconds": seconds, "seconds_total": total}


def _epochs(folder: str, rounds: str, threads: str) -> Mapping[str, Any]:
    import dwcl
    from dwcl.data.scaling import Scaling
    from dwcl.methods.dwcl import DWCL
    from dwcl.methods.pretraining import reconstruct
    from dwcl.methods.sources import make_source
    from dwcl.nn import resolve_precision, set_precision, steps_in_place
    from dwcl.streams import RandomStreams
    from dwcl.training.loop import Trainer
    from dwcl.training.memory import MemoryPlan
    from dwcl.training.session import in_session

    data = dwcl.read(folder)
    cpu = torch.device("cpu")

    def work(_: object) -> dict[str, float]:
        networks = make_networks(data.widths)
        set_precision(networks, resolve_precision("auto", cpu))
        scaling = Scaling.fit(data)
        usual = MemoryPlan.of(data.n_samples, data.widths, DWCL().memory_budget)
        runners = {}
        for name, streamed in (("in memory", False), ("streamed", True)):
            chosen = replace(usual, streamed=streamed)
            trainer = Trainer(
                networks,
                make_source(data, scaling, chosen, cpu),
                RandomStreams(0),
                batch_size=128,
                learning_rate=3e-4,
            )
            runners[name] = partial(_one_epoch, trainer, partial(reconstruct, networks))
        with steps_in_place(networks):
            return alternate(runners, int(rounds))

    return in_session(work, _number(threads))


def _one_epoch(trainer: Any, loss: Any) -> None:
    # A phase that is over is passed by, so each epoch is a phase of its own.
    trainer.phase(f"epoch-{len(trainer.history)}", 1, loss)


def _silhouette(n: str, threads: str) -> Mapping[str, Any]:
    from dwcl.clustering.silhouette import silhouette
    from dwcl.training.session import in_session

    x, labels = blobs(int(n))
    small, of_small = blobs(2_000)
    in_session(lambda _: silhouette(torch.from_numpy(small), of_small), _number(threads))
    before = memory_now()
    in_session(lambda _: silhouette(torch.from_numpy(x), labels), _number(threads))
    return {"extra": peak_memory() - before}


def peak_memory() -> int:
    """Greatest resident memory of this process so far, in bytes."""
    return _from_status("VmHWM")


def memory_now() -> int:
    """Resident memory of this process, in bytes."""
    return _from_status("VmRSS")


def _from_status(key: str) -> int:
    try:
        lines = _STATUS.read_text("ascii").splitlines()
    except OSError as failure:
        raise FileError(
            f"{_STATUS} cannot be read; peak memory is measured on Linux only."
        ) from failure
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:"))


def _number(text: str) -> int | None:
    return None if text == "None" else int(text)


_MEASUREMENTS: dict[str, Callable[..., Mapping[str, Any]]] = {
    "fit": _fit,
    "epochs": _epochs,
    "silhouette": _silhouette,
}

if __name__ == "__main__":
    name, *rest = sys.argv[1:]
    sys.stdout.write(json.dumps(_MEASUREMENTS[name](*rest)))
