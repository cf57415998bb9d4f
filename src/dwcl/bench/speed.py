"""Speed of the training engine, as ratios to a naive loop and to the floor of its arithmetic."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dwcl.bench.floor import floor_step
from dwcl.bench.naive import NaiveTrainer, make_networks
from dwcl.bench.report import Figure, alternate
from dwcl.losses import infonce
from dwcl.methods.dwcl import DWCL
from dwcl.methods.pretraining import reconstruct
from dwcl.nn import Precision, set_precision, steps_in_place
from dwcl.streams import RandomStreams
from dwcl.training.batches import InMemory
from dwcl.training.loop import Trainer
from dwcl.training.session import in_session
from dwcl.views import Pair

BATCH = 128
STEPS = 4
"""Training steps in one measurement."""
REPEATS = 10
"""Contrastive terms in one measurement."""

SHAPES: Mapping[str, tuple[int, tuple[int, ...]]] = {
    "Scene_15": (4485, (20, 59, 40)),
    "HW": (2000, (216, 76, 64, 6, 240, 47)),
}
"""Samples and widths of well-known data sets; speed depends on these alone."""


def measure_training(
    name: str, n_samples: int, widths: Sequence[int], *, rounds: int = 7, threads: int | None = None
) -> list[Figure]:
    """Measure both phases of DWCL in each precision, the naive loop, and the floors."""

    def work(_: object) -> dict[Any, float]:
        with contextlib.ExitStack() as kept:
            return alternate(_training_runners(widths, kept), rounds)

    seconds = in_session(work, threads)
    per_epoch = n_samples / (STEPS * BATCH)
    targets = {"fp32": (1.7, 0.80), "bf16": (4.5, 0.70)}
    figures = []
    for phase in ("pretrain", "contrast"):
        for precision, (faster, share) in targets.items():
            ours = seconds[phase, precision] * per_epoch
            naive = seconds[phase, "naive"] * per_epoch
            floor = seconds[phase, f"floor-{precision}"] * per_epoch
            what = f"{phase} epoch, {name}, {precision}"
            wanted = faster if phase == "contrast" else None
            figures.append(Figure(what, ours, naive, naive / ours, "naive loop", wanted))
            figures.append(Figure(what, ours, floor, floor / ours, "floor", share))
    return figures


def measure_mechanisms(
    *, numbers: Sequence[int] = (2, 4, 8, 16), rounds: int = 7, threads: int | None = None
) -> tuple[list[Figure], float]:
    """Measure how the contrastive terms of both mechanisms grow with the number of views.

    Returns
    -------
    list of Figure, float
        Best-other against pairwise for each number of views, and the exponent with which the time
        of best-other grows.
    """

    def work(_: object) -> dict[Any, float]:
        generator = torch.Generator().manual_seed(0)
        runners: dict[Any, Callable[[], object]] = {}
        for n_views in numbers:
            zs = [
                functional.normalize(
                    torch.randn(BATCH, 128, generator=generator), dim=1
                ).requires_grad_()
                for _ in range(n_views)
            ]
            best = [(v, 0) for v in range(n_views)]
            pairs = [(v, w) for v in range(n_views) for w in range(v, n_views)]
            runners["best-other", n_views] = partial(_contrast, zs, best)
            runners["pairwise", n_views] = partial(_contrast, zs, pairs)
        return alternate(runners, rounds)

    seconds = {what: time / REPEATS for what, time in in_session(work, threads).items()}
    figures = [
        Figure(
            f"contrastive terms of {n} views, best-other",
            seconds["best-other", n],
            seconds["pairwise", n],
            seconds["pairwise", n] / seconds["best-other", n],
            "pairwise",
        )
        for n in numbers
    ]
    return figures, exponent(numbers, [seconds["best-other", n] for n in numbers])


def exponent(numbers: Sequence[int], seconds: Sequence[float]) -> float:
    """Fit seconds = c · numberᵉ by least squares of the logarithms, and return e."""
    xs, ys = [math.log(n) for n in numbers], [math.log(s) for s in seconds]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return covariance / sum((x - mean_x) ** 2 for x in xs)


def _training_runners(
    widths: Sequence[int], kept: contextlib.ExitStack
) -> dict[Any, Callable[[], object]]:
    """Make the functions to be compared; each does STEPS steps of one phase."""
    generator = torch.Generator().manual_seed(0)
    views = [torch.rand(STEPS * BATCH, d, generator=generator) for d in widths]
    ones = [[1.0] * len(widths)] * len(widths)
    naive = NaiveTrainer(make_networks(widths), views)
    runners: dict[Any, Callable[[], object]] = {
        ("pretrain", "naive"): naive.pretrain_epoch,
        ("contrast", "naive"): partial(naive.contrast_epoch, ones),
    }
    precisions: tuple[Precision, ...] = ("fp32", "bf16")
    for precision in precisions:
        for phase in ("pretrain", "contrast"):
            step = floor_step(
                make_networks(widths), widths, BATCH, precision, contrast=phase == "contrast"
            )
            runners[phase, precision] = engine_epoch(views, precision, phase, kept)
            runners[phase, f"floor-{precision}"] = partial(_repeat, step)
    return runners


def engine_epoch(
    views: Sequence[Tensor], precision: Precision, phase: str, kept: contextlib.ExitStack
) -> Callable[[], None]:
    """Make a function that trains one epoch more at each call, as a fit of DWCL does.

    Memory is kept from call to call, as in the phases of a fit, which are longer.
    """
    networks = make_networks([view.shape[1] for view in views])
    set_precision(networks, precision)
    kept.enter_context(steps_in_place(networks))
    trainer = Trainer(
        networks, InMemory(views), RandomStreams(0), batch_size=BATCH, learning_rate=3e-4
    )
    pairs = [Pair(v, 0, 1, 1.0) for v in range(len(views))]
    losses = {
        "pretrain": partial(reconstruct, networks),
        "contrast": partial(DWCL().contrast, networks, pairs),
    }
    epochs = itertools.count(1)

    def run() -> None:
        # A phase that is over is passed by, so each epoch is a phase of its own.
        trainer.phase(f"{phase}-{next(epochs)}", 1, losses[phase])

    return run


def _contrast(zs: Sequence[Tensor], pairs: Sequence[tuple[int, int]]) -> None:
    # A single time is a millisecond or less, which a moment's pause of the system would hide.
    for _ in range(REPEATS):
        torch.autograd.backward(infonce(zs, pairs, 1.0).mean(dim=1).sum())


def _repeat(step: Callable[[], None]) -> None:
    for _ in range(STEPS):
        step()
