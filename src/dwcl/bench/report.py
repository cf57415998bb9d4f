"""Figures of a measurement: how they are taken in turns, and how they are kept."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

import dwcl


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
        return None if self.target is None else self.ratio >= self.target and self.plausible

    @property
    def plausible(self) -> bool:
        """Whether the ratio can be: nothing is faster than a floor, but for the noise."""
        return self.reference != "floor" or self.ratio <= 1.1


@dataclass
class SpeedReport:
    """All figures with the circumstances under which they hold."""

    figures: list[Figure] = field(default_factory=list)
    facts: dict[str, float] = field(default_factory=dict)
    circumstances: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "circumstances": self.circumstances,
            "facts": self.facts,
            "figures": [
                {**asdict(f), "reached": f.reached, "plausible": f.plausible} for f in self.figures
            ],
        }


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
    }


def _processor() -> str:
    try:
        capabilities = torch.cpu.get_capabilities()
    except AttributeError:
        return platform.processor() or platform.machine()
    return str(capabilities.get("cpu_name", platform.machine()))
