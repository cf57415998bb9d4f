"""The source of the paper, which is no part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def paper_source() -> str:
    """Text of the paper's LaTeX source; tests skip where it is not there."""
    usual = Path(__file__).parents[3].parent / "shared" / "paper" / "dwcl.tex"
    path = Path(os.environ.get("DWCL_PAPER_SOURCE", usual)).resolve()
    if not path.is_file():
        pytest.skip(f"the source of the paper is not at {path} (set DWCL_PAPER_SOURCE)")
    return path.read_text("utf-8")
