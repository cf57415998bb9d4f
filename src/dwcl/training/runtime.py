"""What the C libraries below PyTorch hold on to: idle workers, and memory that was freed.

Both are matters of speed and memory alone, on Linux alone; elsewhere, or where a library is not
found, nothing happens and nothing is lost.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path

import torch

_SOFT = 1  # omp_pause_soft: settings stay as they are


def release_workers() -> None:
    """Let the idle OpenMP workers of the calling thread go; when they are needed, others start.

    GNU's OpenMP counts them. As soon as there are more than processors, the workers of every
    thread sleep between two loops instead of watching out for the next one, and a training thread
    beside a caller that has workers of its own is slower by half.
    """
    runtime = _openmp()
    if runtime is not None:
        runtime.omp_pause_resource_all(_SOFT)


def release_memory() -> None:
    """Return freed memory to the system, which the C library keeps for itself in many pieces."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


@cache
def _openmp() -> ctypes.CDLL | None:
    """Find the OpenMP that PyTorch brings along and has loaded, and no other one."""
    if sys.platform != "linux":
        return None
    for path in sorted((Path(torch.__file__).parent / "lib").glob("libgomp*.so*")):
        try:
            library = ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD)
        except OSError:  # it is there, but not in use
            continue
        if hasattr(library, "omp_pause_resource_all"):
            return library
    return None
