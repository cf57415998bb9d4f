"""Speed of methods under the engine, as ratios to plain eager versions of themselves.

Both learn in one run and in turns: the engine's epochs are those of a fit, and after each of them
the plain version has one of its own, in the same thread and with the same number of threads. A
machine that is slow for a while is so for both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from dwcl.bench.plain import Epoch, PlainVersion, get_plain, in_plain_layers
from dwcl.bench.report import Figure
from dwcl.data.multiview import MultiView
from dwcl.methods.registry import get_method
from dwcl.nn import Precision, resolve_precision
from dwcl.streams import RandomStreams
from dwcl.training.callbacks import Callback, Record

STEPS = 4
"""Batches of an epoch that is measured; times are scaled to all samples of a data set."""
CLUSTERS = 10
REFERENCE = "plain eager"
TARGET = 1.0


def measure_methods(
    methods: Sequence[str],
    name: str,
    n_samples: int,
    widths: Sequence[int],
    *,
    rounds: int = 7,
    threads: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> list[Figure]:
    """Measure the phases of methods that have plain versions.

    Parameters
    ----------
    methods : sequence of str
        Names; see :func:`dwcl.bench.plain.plain_versions` for those that there are.
    name, n_samples, widths : str, int, sequence of int
        A data set: its name for the report, and its shape.
    rounds : int
        Epochs of each that count, after one to warm up.
    threads : int, optional
        PyTorch's number unless given.
    settings : mapping, optional
        Of the methods, instead of their defaults.

    Returns
    -------
    list of Figure
        One for each phase in single precision, and, where the processor has bf16 natively, one with
        that. The plain version is in single precision.
    """
    native: Precision = resolve_precision("auto", torch.device("cpu"))
    figures = []
    for method in methods:
        plain = get_plain(method)
        for precision in dict.fromkeys(("fp32", native)):
            own = {**(settings or {}), "precision": precision, "threads": threads}
            turns = take_turns(plain, n_samples, widths, epochs=rounds + 1, settings=own)
            for phase in plain.phases:
                what = f"{phase} epoch of {method}, {name}, {precision}"
                ours, theirs = turns.medians(phase)
                scale = n_samples / turns.n_samples
                figures.append(
                    Figure(what, ours * scale, theirs * scale, theirs / ours, REFERENCE, TARGET)
                )
    return figures


def take_turns(
    plain: PlainVersion,
    n_samples: int,
    widths: Sequence[int],
    *,
    epochs: int,
    settings: Mapping[str, Any],
) -> Turns:
    """Fit a method, with an epoch of its plain version after each epoch of its own.

    Both begin with the same values. Where what lies between phases is the same as well, and one
    batch holds all samples, the losses of both are the same too.
    """
    fixed = {"scaling": "none", "device": "cpu", "random_state": 0}
    chosen = {**plain.schedule(epochs), **settings, **fixed}
    model = get_method(plain.method)(**{"n_clusters": CLUSTERS, **chosen})
    n = min(n_samples, STEPS * model.batch_size)
    generator = torch.Generator().manual_seed(0)
    views = [torch.rand(n, width, generator=generator) for width in widths]
    data = MultiView({f"view{v}": view.numpy() for v, view in enumerate(views, 1)})
    streams = RandomStreams(0)
    generators = [streams.torch("networks", name) for name in data.names]
    networks = in_plain_layers(model._build(widths, generators))
    made = {phase: make(model, networks, views) for phase, make in plain.phases.items()}
    turns = Turns(n, made)
    model.fit(data, callbacks=[turns])
    return turns


class Turns(Callback):
    """Takes the time of a fit's epochs, and lets a plain one follow on each.

    Attributes
    ----------
    n_samples : int
        Samples of an epoch.
    seconds, losses : dict of str to list of (float, float)
        By phase, the fit's and the plain one's, epoch by epoch.
    """

    def __init__(self, n_samples: int, epochs: Mapping[str, Epoch]) -> None:
        self.n_samples = n_samples
        self._epochs = epochs
        self.seconds: dict[str, list[tuple[float, float]]] = {phase: [] for phase in epochs}
        self.losses: dict[str, list[tuple[float, float]]] = {phase: [] for phase in epochs}

    def on_record(self, record: Record) -> None:
        """After an epoch of a phase that is measured, have the plain one."""
        if record["event"] != "epoch" or record["phase"] not in self._epochs:
            return
        phase = record["phase"]
        began = time.perf_counter()
        loss = self._epochs[phase]()
        seconds = time.perf_counter() - began
        self.seconds[phase].append((record["seconds"], seconds))
        self.losses[phase].append((record["loss"], loss))

    def medians(self, phase: str) -> tuple[float, float]:
        """Return the median seconds of the fit's epochs and of the plain ones.

        The first of each does not count: it has memory to find and caches to fill.
        """
        ours, theirs = zip(*self.seconds[phase][1:], strict=True)
        return statistics.median(ours), statistics.median(theirs)
