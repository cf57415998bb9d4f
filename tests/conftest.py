"""What all tests share: the hypothesis profiles and the folder of development data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# On shared machines a single slow example says nothing about the code.
settings.register_profile(
    "dev", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=50,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with the public data sets for development; tests skip where it is not there."""
    folder = Path(
        os.environ.get("DWCL_DEV_DATA", Path(__file__).parents[2] / "shared" / "data")
    ).resolve()
    if not (folder / "MSRC_v1.mat").exists():
        pytest.skip(f"the development data sets are not in {folder} (set DWCL_DEV_DATA)")
    return folder


@pytest.fixture
def small() -> dict[str, Any]:
    """Settings under which a fit takes a fraction of a second."""
    return {
        "encoder": (32, 32),
        "latent": 16,
        "embedding": 8,
        "pretrain_epochs": 8,
        "iterations": 2,
        "epochs": 6,
        "batch_size": 32,
        "learning_rate": 3e-3,
        "n_init": 3,
        "threads": 1,
        "precision": "fp32",
    }
