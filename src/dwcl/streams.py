"""All randomness of a fit, from one seed, without touching the caller's global generators."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch

from dwcl.errors import SettingError


class RandomStreams:
    """Independent generators, one for each purpose, all derived from one random state.

    A stream is named by a path such as ``("shuffle", "pretrain", 7)``. Its numbers depend on the
    seed and on the path alone, not on what was drawn before: the shuffle of the seventh epoch is
    the same whether the six epochs before it ran in this process or in another one.

    Parameters
    ----------
    random_state : None, int, numpy.random.RandomState or numpy.random.Generator
        A whole number gives the same streams each time; a generator gives a seed drawn from it,
        which advances it; None gives fresh entropy.
    """

    def __init__(self, random_state: Any = None) -> None:
        self.seed = as_seed(random_state)

    def numpy(self, *path: str | int) -> np.random.Generator:
        """Return a NumPy generator for the purpose named by the path."""
        return np.random.default_rng(self._sequence(path))

    def torch(self, *path: str | int) -> torch.Generator:
        """Return a PyTorch generator (on the CPU) for the purpose named by the path."""
        seed = int(self._sequence(path).generate_state(1, np.uint64)[0] >> np.uint64(1))
        return torch.Generator().manual_seed(seed)

    def _sequence(self, path: tuple[str | int, ...]) -> np.random.SeedSequence:
        # The path goes in by a hash that is the same in every process and version of Python.
        digest = hashlib.blake2b("\0".join(map(str, path)).encode(), digest_size=16).digest()
        words = np.frombuffer(digest, dtype="<u4").tolist()
        return np.random.SeedSequence(self.seed, spawn_key=words)


def as_seed(random_state: Any) -> int:
    """Turn whatever serves as a random state into one whole number that is not negative."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        if random_state < 0:
            raise SettingError(f"random_state is {random_state}; a seed must be 0 or greater.")
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31, dtype=np.int64))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    raise SettingError(
        f"random_state is {random_state!r}; a whole number, a numpy RandomState or Generator, "
        "or None is expected."
    )
