"""Small experiments for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dwcl

TINY = """
title = "tiny"
data = [{{ source = "{data}", name = "blobs" }}]
seeds = [0, 1]

[settings]
encoder = [6]
latent = 4
pretrain_epochs = 2
n_init = 1

[[runs]]
method = "kmeans"

[[runs]]
method = "concat-ae"
grid = {{ balance = ["none", "variance"] }}
"""


@pytest.fixture
def blobs(tmp_path: Path) -> Path:
    """Write 60 samples with two views and three classes."""
    return write_blobs(tmp_path / "blobs.npz", 60)


def write_blobs(path: Path, n: int) -> Path:
    data = dwcl.make_multiview(n, 3, random_state=0)
    views = {name: np.asarray(data[name]) for name in data.names[:2]}
    np.savez(path, **views, labels=np.asarray(data.labels))
    return path


@pytest.fixture
def tiny(blobs: Path) -> str:
    """Return the text of an experiment with three columns and two seeds."""
    return TINY.format(data=blobs.as_posix())
