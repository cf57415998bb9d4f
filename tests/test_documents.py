"""The examples in docstrings and documents work, and the documents' links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
EXAMPLES = ("dwcl", "dwcl.methods.dwcl", "dwcl.data.scaling")


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_docstrings_give_what_they_say(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_in_documents_is_python(page: Path) -> None:
    for block in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
        compile(block, page.name, "exec")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_documents_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def test_settings_named_in_the_documents_exist() -> None:
    from dwcl import DWCL

    known = DWCL().get_params()
    for page in PAGES:
        for name in re.findall(r"--set '?([a-z_]+)=", page.read_text("utf-8")):
            assert name in known, (page.name, name)
