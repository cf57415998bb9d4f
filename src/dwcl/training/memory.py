"""How a fit shares out the memory that it may take, and whether the machine has that much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from dwcl.errors import DataError

GIGABYTE = 10**9
_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class MemoryPlan:
    """What is held in memory, decided by the size of the data and a budget alone.

    The memory that happens to be free has no part in this: where data lie decides in which order
    they are learnt from, and so the result.

    Attributes
    ----------
    streamed : bool
        Whether batches are read as they are needed: data in single precision and their shuffled
        copy would take more than the budget.
    window : int
        Bytes of a window of streamed data, of which two are held; a sixteenth of the budget.
    features : int
        Bytes up to which features of all samples are held in memory; a quarter of the budget.
    exact : int
        Bytes of a table up to which k-means works on the whole of it: its copies take twice as
        much again, half of the budget in all.
    """

    streamed: bool
    window: int
    features: int
    exact: int

    @classmethod
    def of(cls, n_samples: int, widths: Sequence[int], budget: float) -> MemoryPlan:
        """Make the plan for n × Σ d_v data and a budget in GB."""
        allowed = int(budget * GIGABYTE)
        return cls(
            streamed=2 * _table(n_samples, sum(widths)) > allowed,
            window=allowed // 16,
            features=allowed // 4,
            exact=allowed // 6,
        )


@dataclass(frozen=True)
class Needs:
    """Estimated memory of a fit in bytes, by what it is for."""

    networks: int
    data: int
    features: int

    @property
    def total(self) -> int:
        """All together."""
        return self.networks + self.data + self.features


def estimate(
    plan: MemoryPlan, n_samples: int, widths: Sequence[int], n_parameters: int, latent: int
) -> Needs:
    """Estimate what a fit takes at most.

    Parameters
    ----------
    plan : MemoryPlan
        What is held in memory.
    n_samples, widths : int, sequence of int
        Of the data.
    n_parameters : int
        Of the networks: each is held with its gradient and two moments in single precision, and
        rounded to bf16.
    latent : int
        Features of a sample in all views together, which are clustered at once.
    """
    whole = _table(n_samples, sum(widths))
    features = _table(n_samples, latent)
    return Needs(
        networks=18 * n_parameters,
        data=2 * min(plan.window, whole) if plan.streamed else 2 * whole,
        features=min(features, plan.features) + 3 * min(features, plan.exact),
    )


def check_fits(needs: Needs, free: int | None) -> None:
    """Refuse a fit that the free memory cannot hold, with the way out; None is not known."""
    if free is None or needs.total <= free:
        return
    parts = {"networks": needs.networks, "data": needs.data, "features": needs.features}
    listed = ", ".join(f"{name} {_worded(size)}" for name, size in parts.items())
    if needs.networks > needs.data + needs.features:
        way_out = "Make the networks smaller (encoder, latent), or leave out or reduce wide views."
    else:
        way_out = (
            "Set memory_budget lower: data are then read by batches, and features are kept on "
            "the disk."
        )
    raise DataError(
        f"This fit takes about {_worded(needs.total)} of memory ({listed}), and "
        f"{_worded(free)} are free. {way_out}"
    )


def free_memory() -> int | None:
    """Tell how much memory the process may still take; None where the system does not say."""
    found = [size for size in (_free_of_machine(), _free_of_group()) if size is not None]
    return min(found, default=None)


def _free_of_machine() -> int | None:
    try:
        lines = _MEMINFO.read_text("ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return None


def _free_of_group() -> int | None:
    """Read the limit of a container."""
    try:
        limit = (_CGROUP / "memory.max").read_text("ascii").strip()
        used = int((_CGROUP / "memory.current").read_text("ascii"))
    except (OSError, ValueError):
        return None
    return None if limit == "max" else max(0, int(limit) - used)


def count_parameters(networks: torch.nn.Module) -> int:
    """Count the numbers that networks learn."""
    return sum(parameter.numel() for parameter in networks.parameters())


def _table(n: int, width: int) -> int:
    return 4 * n * width


def _worded(size: int) -> str:
    return f"{size / GIGABYTE:.1f} GB"
