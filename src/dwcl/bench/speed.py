"""Speed of the engine, of k-means and of the silhouette, each as a ratio to a named reference.

What is compared runs in turns, round by round, in one process and on the same threads: a load from
elsewhere hits all alike. Figures are medians over the rounds; machines differ, so the ratios count.
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

import dwcl
from dwcl.bench.floor import floor_step
from dwcl.bench.naive import NaiveTrainer, make_networks
from dwcl.losses import infonce, reconstruction
from dwcl.nn import Precision, ViewNetworks, set_precision
from dwcl.streams import RandomStreams
from dwcl.training.batches import Batch, InMemory
from dwcl.training.loop import LossTerms, Trainer
from dwcl.training.session import in_session

BATCH = 128
STEPS = 4
"""Training steps in one measurement."""

SHAPES: Mapping[str, tuple[int, tuple[int, ...]]] = {
    "Scene_15": (4485, (20, 59, 40)),
    "HW": (2000, (216, 76, 64, 6, 240, 47)),
}
"""Samples and widths of well-known data sets; speed depends on these alone."""


@dataclass(frozen=True)
class Figure:
    """One measured ratio.

    Attributes
    ----------
    what : str
        What was measured, and on what.
    seconds, reference_seconds : float
        Of ours and of the reference.
    ratio : float
        How many times as fast ours is; for a floor, the share of it that is reached.
    reference : str
        The name of the reference.
    target : float or None
        What the ratio should reach.
    """

    what: str
    seconds: float
    reference_seconds: float
    ratio: float
    reference: str
    target: float | None = None

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None without one."""
        return None if self.target is None else self.ratio >= self.target


@dataclass
class SpeedReport:
    """All figures with the circumstances under which they hold."""

    figures: list[Figure] = field(default_factory=list)
    circumstances: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "circumstances": self.circumstances,
            "figures": [{**asdict(f), "reached": f.reached} for f in self.figures],
        }


def measure_training(
    name: str, n_samples: int, widths: Sequence[int], *, rounds: int = 7, threads: int | None = None
) -> list[Figure]:
    """Measure both phases of DWCL in each precision, the naive loop, and the floors."""
    runners = in_session(lambda _: _training_runners(widths), threads)
    seconds = in_session(lambda _: alternate(runners, rounds), threads)
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


def measure_mechanisms(*, rounds: int = 5, threads: int | None = None) -> list[Figure]:
    """Measure how the contrastive terms of both mechanisms grow with the number of views."""
    numbers = (2, 4, 8, 16)

    def work(_: object) -> dict[Any, float]:
        runners: dict[Any, Callable[[], object]] = {}
        for n_views in numbers:
            zs = [
                torch.nn.functional.normalize(torch.randn(BATCH, 128), dim=1).requires_grad_()
                for _ in range(n_views)
            ]
            best = [(v, 0) for v in range(n_views)]
            pairs = [(v, w) for v in range(n_views) for w in range(v, n_views)]
            runners["best-other", n_views] = partial(_contrast_once, zs, best)
            runners["pairwise", n_views] = partial(_contrast_once, zs, pairs)
        return alternate(runners, rounds)

    seconds = in_session(work, threads)
    return [
        Figure(
            f"contrastive terms of {n} views, best-other",
            seconds["best-other", n],
            seconds["pairwise", n],
            seconds["pairwise", n] / seconds["best-other", n],
            "pairwise",
        )
        for n in numbers
    ]


def alternate(runners: Mapping[Any, Callable[[], object]], rounds: int) -> dict[Any, float]:
    """Run all in turns, once to warm up and then `rounds` times; returns median seconds."""
    taken: dict[Any, list[float]] = {name: [] for name in runners}
    for round_ in range(rounds + 1):
        for name, run in runners.items():
            began = time.perf_counter()
            run()
            if round_:
                taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in taken.items()}


def circumstances(threads: int | None) -> dict[str, Any]:
    """Return what a reader must know of the machine and the versions."""
    return {
        "dwcl": dwcl.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "processor": _processor(),
        "threads": threads or torch.get_num_threads(),
        "load": time.strftime("%Y-%m-%d"),
    }


def _training_runners(widths: Sequence[int]) -> dict[Any, Callable[[], object]]:
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
        networks = make_networks(widths)
        set_precision(networks, precision)
        trainer = Trainer(
            networks, InMemory(views), RandomStreams(0), batch_size=BATCH, learning_rate=3e-4
        )
        for phase, loss in (("pretrain", _reconstruct), ("contrast", _contrast_with_first)):
            step = floor_step(
                make_networks(widths), widths, BATCH, precision, contrast=phase == "contrast"
            )
            runners[phase, precision] = partial(trainer.phase, phase, 1, partial(loss, networks))
            runners[phase, f"floor-{precision}"] = partial(_repeat, step)
    return runners


def _reconstruct(networks: ViewNetworks, batch: Batch) -> LossTerms:
    by_view = reconstruction(batch.views, networks.decode(networks.encode(batch.views)))
    return LossTerms(by_view.sum(), {})


def _contrast_with_first(networks: ViewNetworks, batch: Batch) -> LossTerms:
    hs = networks.encode(batch.views)
    pairs = [(v, 0) for v in range(len(hs))]
    by_pair = infonce(networks.project(hs), pairs, 1.0).mean(dim=1)
    by_view = reconstruction(batch.views, networks.decode(hs))
    return LossTerms(by_pair.sum() + by_view.sum(), {})


def _contrast_once(zs: Sequence[Tensor], pairs: Sequence[tuple[int, int]]) -> None:
    torch.autograd.backward(infonce(zs, pairs, 1.0).mean(dim=1).sum())


def _repeat(step: Callable[[], None]) -> None:
    for _ in range(STEPS):
        step()


def _processor() -> str:
    try:
        capabilities = torch.cpu.get_capabilities()
    except AttributeError:
        return platform.processor() or platform.machine()
    return str(capabilities.get("cpu_name", platform.machine()))
