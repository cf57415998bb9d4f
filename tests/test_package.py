"""The package itself: quick and silent to import, every public name where it is said to be."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import dwcl


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_import_loads_no_library_and_says_nothing() -> None:
    done = _python(
        "import sys; before = set(sys.modules); import dwcl;"
        "print({name.partition('.')[0] for name in set(sys.modules) - before}"
        " - set(sys.stdlib_module_names))"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "{'dwcl'}\n", "")


def test_the_command_line_starts_without_the_heavy_libraries() -> None:
    done = _python(
        "import sys, dwcl.cli.app;"
        "print({'torch', 'sklearn', 'scipy', 'matplotlib', 'h5py'} & set(sys.modules))"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "set()\n", "")


@pytest.mark.parametrize("name", dwcl.__all__)
def test_every_public_name_is_there(name: str) -> None:
    value = getattr(dwcl, name)
    if name != "__version__":
        assert callable(value)
        assert value.__doc__
        assert name in vars(dwcl)  # kept, so that it is looked up once


def test_a_name_leads_to_the_object_in_its_home() -> None:
    from dwcl.data.fetch import load
    from dwcl.methods.dwcl import DWCL

    assert dwcl.load_dataset is load
    assert dwcl.DWCL is DWCL


def test_what_type_checkers_see_is_what_there_is() -> None:
    tree = ast.parse(Path(str(dwcl.__file__)).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {*seen, "__version__"} == set(dwcl.__all__)
    for public, (module, name) in seen.items():
        assert getattr(importlib.import_module(str(module)), name) is getattr(dwcl, public)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'dwcl' has no attribute 'DWLC'"):
        _ = dwcl.DWLC
    with pytest.raises(ImportError):
        from dwcl import nothing  # noqa: F401


def test_the_names_are_listed() -> None:
    assert dir(dwcl) == sorted(dwcl.__all__)
