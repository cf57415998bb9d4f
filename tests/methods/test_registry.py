"""Methods are found by themselves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import dwcl.methods
from dwcl import DWCL
from dwcl.errors import SettingError
from dwcl.methods.registry import get_method, methods

NEW_METHOD = '''
"""A method that stands in for any new one."""

from dwcl.methods.dwcl import DWCL


class Newcomer(DWCL):
    """A newcomer."""

    method_name = "newcomer"
'''


def test_dwcl_is_found() -> None:
    assert methods()["dwcl"] is DWCL
    assert get_method("dwcl") is DWCL


def test_an_unknown_method_is_answered_with_the_nearest() -> None:
    with pytest.raises(SettingError, match=r"no method 'dwlc'. Did you mean 'dwcl'"):
        get_method("dwlc")


def test_one_new_file_is_all_that_a_method_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "newcomer.py").write_text(NEW_METHOD)
    monkeypatch.setattr(dwcl.methods, "__path__", [*dwcl.methods.__path__, str(tmp_path)])
    methods.cache_clear()
    try:
        assert set(methods()) >= {"dwcl", "newcomer"}
        assert methods()["newcomer"].__name__ == "Newcomer"
    finally:
        methods.cache_clear()
        sys.modules.pop("dwcl.methods.newcomer", None)
