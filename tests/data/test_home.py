from __future__ import annotations

from pathlib import Path

import pytest

from dwcl.data.home import data_home, replacing
from dwcl.errors import DataError, FileError


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


def test_the_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file.npz"
    with replacing(target) as partial:
        partial.write_bytes(b"half")
        assert not target.exists()
        assert partial.parent == target.parent
        assert partial.suffix == ".npz"
    assert target.read_bytes() == b"half"
    assert list(target.parent.iterdir()) == [target]


def test_an_error_leaves_the_earlier_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"before")

    def interrupted() -> None:
        with replacing(target) as partial:
            partial.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert target.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [target]


def test_an_error_of_the_body_is_passed_on_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^mine$"), replacing(tmp_path / "file"):
        raise DataError("mine")


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with (
        pytest.raises(FileError, match=r"Cannot write .*file/inside: .*DWCL_DATA"),
        replacing(tmp_path / "file" / "inside"),
    ):
        pass
