"""Idle workers go, freed memory is returned, and nothing else changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dwcl.training import runtime
from dwcl.training.runtime import release_memory, release_workers

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="it is Linux that tells")

WORKERS = """
import os, sys, torch
from dwcl.training.runtime import release_workers
torch.set_num_threads(3)
count = lambda: len(os.listdir("/proc/self/task"))
before = count()
torch.rand(1000, 1000).sin_()
with_workers = count()
release_workers()
print(with_workers - before, count() - before, float(torch.ones(1000, 1000).mul_(2).mean()))
"""

MEMORY = """
import torch
from pathlib import Path
from dwcl.training.runtime import release_memory
resident = lambda: int(Path("/proc/self/statm").read_text().split()[1])
pieces = [torch.ones(1000) for _ in range(20_000)]
last = torch.ones(1000)
full = resident()
del pieces
release_memory()
print(full - resident())
"""


def output_of(script: str) -> list[str]:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()


@ON_LINUX
@pytest.mark.skipif(runtime._openmp() is None, reason="this PyTorch has another OpenMP")
def test_workers_go_and_others_take_their_place_when_needed() -> None:
    workers, left, mean = output_of(WORKERS)
    assert int(workers) == 2
    assert int(left) == 0
    assert float(mean) == 2.0


@ON_LINUX
def test_memory_in_small_pieces_is_returned() -> None:
    (pages,) = output_of(MEMORY)
    assert int(pages) * 4096 > 40e6  # of 80 MB


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_elsewhere_nothing_happens(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(runtime.ctypes, "CDLL", None)  # a call of it would fail
    runtime._openmp.cache_clear()
    release_workers()
    release_memory()
    runtime._openmp.cache_clear()


def test_a_library_that_is_not_in_use_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libgomp.so.1").write_bytes(b"not a library")
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "__init__.py"))
    runtime._openmp.cache_clear()
    release_workers()
    runtime._openmp.cache_clear()
