"""Features of all samples: the same in memory and in files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import torch
from torch import Tensor

from dwcl.errors import FileError
from dwcl.nn import perceptron
from dwcl.training import InMemory, embed, feature_tables
from dwcl.training.features import FeatureFile


@pytest.fixture
def source() -> InMemory:
    return InMemory([torch.rand(600, 5, generator=torch.Generator().manual_seed(0))])


NETWORKS = perceptron((5, 4), torch.Generator().manual_seed(0))


def forward(xs: list[Tensor]) -> list[Tensor]:
    return [NETWORKS(xs[0]), xs[0][:, :2]]


def test_files_hold_what_memory_would(source: InMemory) -> None:
    exact = embed(NETWORKS, source, forward)
    with feature_tables(NETWORKS, source, forward, budget=4 * 600 * 6) as tables:
        assert all(isinstance(table, Tensor) for table in tables)
        for table, whole in zip(tables, exact, strict=True):
            assert torch.equal(table[:], whole)
    with feature_tables(NETWORKS, source, forward, budget=4 * 600 * 6 - 1) as tables:
        assert all(isinstance(table, FeatureFile) for table in tables)
        for table, whole in zip(tables, exact, strict=True):
            assert (len(table), tuple(table.shape)) == (600, tuple(whole.shape))
            assert torch.equal(table[:], whole)
            assert torch.equal(table[250:260], whole[250:260])
            rows = torch.tensor([599, 0, 255, 256])
            assert torch.equal(table[rows], whole[rows])


def test_the_files_are_gone_afterwards_also_after_trouble(
    source: InMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with (
        pytest.raises(RuntimeError, match="2 files"),
        feature_tables(NETWORKS, source, forward, budget=0),
    ):
        raise RuntimeError(f"{len(list(tmp_path.glob('*/*')))} files")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_clearly(
    source: InMemory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Full:
        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None: ...

        def write(self, _: object) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Path, "open", lambda *_: Full())
    with (
        pytest.raises(FileError, match=r"Cannot write .*No space left on device"),
        feature_tables(NETWORKS, source, forward, budget=0),
    ):
        pass
