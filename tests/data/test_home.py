from __future__ import annotations

from pathlib import Path

import pytest

from dwcl.data.home import data_home, make_home
from dwcl.errors import FileError


def test_an_explicit_folder_counts_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DWCL_DATA", str(tmp_path / "set"))
    assert data_home(tmp_path / "given") == tmp_path / "given"
    assert data_home() == tmp_path / "set"


@pytest.mark.parametrize("value", [None, ""])
def test_the_cache_of_the_platform_is_the_default(
    value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("DWCL_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("DWCL_DATA", value)
    assert data_home().name == "dwcl"


def test_a_tilde_is_the_users_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DWCL_DATA", "~/sets")
    assert data_home() == Path.home() / "sets"


def test_the_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    make_home(tmp_path / "a" / "b")
    make_home(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileError, match=r"Cannot make the folder .*file/inside: .*DWCL_DATA"):
        make_home(tmp_path / "file" / "inside")
