"""Checkpoints of a fit: whose they are, and the hold on their folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import dwcl
from dwcl.data.multiview import MultiView
from dwcl.errors import SettingError
from dwcl.methods.settings import plain_settings
from dwcl.training.checkpoint import Checkpoints, CheckpointStore, Keeper


@contextmanager
def keeping(
    wanted: str | Path | Checkpoints | None, identity: Callable[[], dict[str, Any]]
) -> Iterator[Keeper | None]:
    """Hold the folder of the checkpoints, if there is to be one, for the time of a fit."""
    if wanted is None:
        yield None
        return
    chosen = wanted if isinstance(wanted, Checkpoints) else Checkpoints(wanted)
    store = CheckpointStore(Path(chosen.folder), identity())
    with store.locked():
        yield Keeper(store, chosen.every)
        if not chosen.keep:
            store.clear()


def identity_of(
    method: str,
    settings: dict[str, Any],
    data: MultiView,
    *,
    precision: str,
    device: str,
) -> dict[str, Any]:
    """State everything that decides the bytes of a result, so that no two runs are mixed up.

    A seed counts where it was given; a run without one goes on with the seed that it drew.
    """
    plain = plain_settings(settings)
    given = plain.pop("random_state")
    for name, value in settings.items():
        if callable(value):
            plain[name] = _identity_of_function(name, value)
    resolved = {
        "seed": given if isinstance(given, int) else None,
        "precision": precision,
        "device": device,
        "threads": settings["threads"] or torch.get_num_threads(),
        "data": data.fingerprint(),
        "dwcl": dwcl.__version__,
        "torch": torch.__version__,
    }
    # As JSON has it, since that is what a checkpoint will be compared by.
    identity: dict[str, Any] = json.loads(json.dumps({"method": method, **plain, **resolved}))
    return identity


def _identity_of_function(name: str, function: Any) -> str:
    """Name a function so that a later process can tell whether it is the same one."""
    qualified = getattr(function, "__qualname__", "")
    code = getattr(function, "__code__", None)
    if not qualified or "<" in qualified or code is None:
        raise SettingError(
            f"{name} is {function!r}, which another process could not recognise. For a fit with "
            "checkpoints, define it as a function at the top level of a module."
        )
    digest = hashlib.sha256(code.co_code + repr(code.co_consts).encode()).hexdigest()
    return f"{function.__module__}.{qualified}:{digest}"
