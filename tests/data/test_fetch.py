from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from numpy.typing import NDArray

from dwcl.data import fashion
from dwcl.data.catalogue import Entry, entries, find
from dwcl.data.fetch import fetch, import_file, load, resolve, status
from dwcl.errors import DataError, FileError, SettingError

Make = Callable[..., Entry]

N, WIDTHS, CLASSES = 12, (2, 3), 4


def tables(
    n: int = N, widths: tuple[int, ...] = WIDTHS, classes: int = CLASSES
) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(0)
    views = {f"X{i}": rng.normal(size=(n, width)) for i, width in enumerate(widths, 1)}
    return {**views, "Y": np.arange(n).reshape(-1, 1) % classes + 1}


def write_mat(path: Path, **shape: Any) -> Path:
    scipy.io.savemat(path, tables(**shape))
    return path


def mat_bytes(**shape: Any) -> bytes:
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, tables(**shape))
    return buffer.getvalue()


def shared(**others: Any) -> Entry:
    """A data set that only its authors share."""
    fields: dict[str, Any] = {
        "name": "drive",
        "kind": "import",
        "title": "On a drive",
        "n": N,
        "widths": WIDTHS,
        "classes": CLASSES,
    }
    return Entry(**(fields | others))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


# -- fetch and status --------------------------------------------------------------------------


def test_a_fetched_file_is_kept_and_used_again(web: Any, make_entry: Make, home: Path) -> None:
    entry = make_entry(b"content", web.put("/a", b"content"))
    assert status(entry, home) == "not fetched"
    path = fetch(entry, home=home)
    assert path == home / "tiny.bin"
    assert status(entry, home) == "here"
    assert fetch(entry, home=home) == path
    assert web.asked == ["/a"]


def test_a_damaged_file_is_fetched_again(
    web: Any, make_entry: Make, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entry = make_entry(b"content", web.put("/a", b"content"))
    path = fetch(entry, home=home)
    path.write_bytes(b"contemt")
    assert fetch(entry, home=home).read_bytes() == b"content"
    assert "is damaged" in caplog.text
    path.write_bytes(b"cont")
    assert status(entry, home) == "not fetched"


def test_the_environment_names_the_folder(
    web: Any, make_entry: Make, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DWCL_DATA", str(home))
    assert fetch(make_entry(b"content", web.put("/a", b"content"))) == home / "tiny.bin"


def test_what_has_no_address_says_how_to_get_it(home: Path) -> None:
    assert status("dha", home) == "import only"
    with pytest.raises(FileError, match=r"'dha' has no public address.*github.*483 samples"):
        fetch("dha", home=home)
    with pytest.raises(FileError, match="run: dwcl data import cifar10 FILE"):
        fetch("CIFAR10", home=home)
    assert not home.exists()


def test_what_is_embedded_is_not_fetched(home: Path) -> None:
    assert status("digits", home) == "embedded"
    with pytest.raises(DataError, match="'digits' is part of dwcl"):
        fetch("digits", home=home)


def test_an_unknown_name(home: Path) -> None:
    for call in (fetch, status, load):
        with pytest.raises(SettingError, match="Did you mean 'coil20'"):
            call("coil2o", home=home)  # type: ignore[operator]


def test_every_entry_has_a_status(home: Path) -> None:
    words = {
        "download": "not fetched",
        "archive": "not fetched",
        "import": "import only",
        "embedded": "embedded",
        "build": "to be built",
    }
    assert all(status(entry, home) == words[entry.kind] for entry in entries())


def test_an_archive_is_fetched_then_extracted_by_the_user(
    web: Any, make_entry: Make, home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entry = make_entry(
        b"Rar!", web.put("/a", b"Rar!"), kind="archive", filename="tiny.rar", n=N, widths=WIDTHS
    )
    archive = fetch(entry, home=home)
    assert archive == home / "tiny.rar"
    assert "Extract it, for example with" in caplog.text
    assert status(entry, home) == "to be extracted"
    assert fetch(entry, home=home) == archive
    with pytest.raises(
        FileError, match=r"tiny\.rar, which dwcl does not extract.*import tiny FILE"
    ):
        load(entry, home=home)
    extracted = write_mat(tmp_path / "Inside.MAT")
    assert import_file(entry, extracted, home) == home / "tiny.mat"
    assert status(entry, home) == "here"
    assert fetch(entry, home=home) == home / "tiny.mat"
    assert load(entry, home=home).widths == WIDTHS
    assert web.asked == ["/a"]


# -- import ------------------------------------------------------------------------------------


def test_a_file_of_known_hash_is_imported(make_entry: Make, home: Path, tmp_path: Path) -> None:
    entry = make_entry(b"content", "http://example.org/a")
    (tmp_path / "any name").write_bytes(b"content")
    path = import_file(entry, tmp_path / "any name", home)
    assert path == home / "tiny.bin"
    assert path.read_bytes() == b"content"
    assert import_file(entry, path, home).read_bytes() == b"content"
    assert list(home.iterdir()) == [path]


def test_another_file_is_refused(make_entry: Make, home: Path, tmp_path: Path) -> None:
    entry = make_entry(b"content", "http://example.org/a")
    (tmp_path / "file").write_bytes(b"cont")
    with pytest.raises(DataError, match=r"another file: 4 bytes with SHA-256 .* expected 7 bytes"):
        import_file(entry, tmp_path / "file", home)
    assert not list(home.iterdir())


def test_an_archive_is_imported_by_hash(
    make_entry: Make, home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entry = make_entry(b"Rar!", "http://example.org/a", kind="archive", filename="tiny.rar")
    (tmp_path / "good.rar").write_bytes(b"Rar!")
    assert import_file(entry, tmp_path / "good.rar", home) == home / "tiny.rar"
    assert "which dwcl does not extract" in caplog.text
    (tmp_path / "bad.rar").write_bytes(b"other")
    with pytest.raises(DataError, match="another file"):
        import_file(entry, tmp_path / "bad.rar", home)


def test_files_that_are_not_there(home: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"Cannot import 'hw': .*none\.mat does not exist"):
        import_file("hw", tmp_path / "none.mat", home)
    with pytest.raises(FileError, match="is a folder; a file is expected"):
        import_file("hw", tmp_path, home)


def test_trouble_with_the_original_is_told_from_trouble_with_the_copy(
    make_entry: Make, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, *args: Any) -> None:
        raise PermissionError(13, "Permission denied")

    entry = make_entry(b"content", "http://example.org/a")
    (tmp_path / "file").write_bytes(b"content")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(FileError, match=r"Cannot read .*/file: Permission denied"):
        import_file(entry, tmp_path / "file", home)
    monkeypatch.undo()
    assert not home.exists()
    home.write_bytes(b"")
    with pytest.raises(FileError, match=r"Cannot make the folder .*home: .*DWCL_DATA"):
        import_file(entry, tmp_path / "file", home)


@pytest.mark.parametrize(
    ("name", "why"), [("digits", "is part of dwcl"), ("fashion", "is made by dwcl")]
)
def test_nothing_is_imported_as_what_dwcl_makes(
    name: str, why: str, home: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=f"Nothing can be imported as '{name}': it {why}"):
        import_file(name, tmp_path / "file.mat", home)


def test_a_file_of_the_papers_shape_is_imported(home: Path, tmp_path: Path) -> None:
    entry = shared()
    source = write_mat(tmp_path / "Whatever.mat")
    path = import_file(entry, source, home)
    assert path == home / "drive.mat"
    assert path.read_bytes() == source.read_bytes()
    assert status(entry, home) == "here"
    data = load(entry, home=home)
    np.testing.assert_array_equal(data.arrays[1], tables()["X2"])
    assert data.n_label_values == CLASSES


@pytest.mark.parametrize(
    "shape", [{"n": 16}, {"widths": (2, 4)}, {"widths": (2, 3, 3)}, {"classes": 3}]
)
def test_a_file_of_another_shape_is_refused(
    shape: dict[str, Any], home: Path, tmp_path: Path
) -> None:
    source = write_mat(tmp_path / "other.mat", **shape)
    with pytest.raises(
        DataError,
        match=r"is not the data set 'drive': it has .*; "
        r"expected 12 samples · views of 2, 3 · 4 classes",
    ):
        import_file(shared(), source, home)
    assert not home.exists()


def test_views_in_another_order_are_accepted_and_said(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = write_mat(tmp_path / "turned.mat", widths=(3, 2))
    import_file(shared(), source, home)
    words = "views in another order than in the catalogue: 3, 2 instead of 2, 3"
    assert words in caplog.text
    assert words in load(shared(), home=home).provenance.layout


def test_a_new_import_takes_the_place_of_the_earlier(home: Path, tmp_path: Path) -> None:
    import_file(shared(), write_mat(tmp_path / "a.mat"), home)
    arrays = {f"view{i}": tables()[f"X{i}"] for i in (1, 2)}
    np.savez(tmp_path / "b.npz", **arrays)
    assert import_file(shared(), tmp_path / "b.npz", home) == home / "drive.npz"
    assert [path.name for path in home.iterdir()] == ["drive.npz"]
    assert load(shared(), home=home).labels is None


def test_the_ending_of_a_packed_table_is_kept(home: Path, tmp_path: Path) -> None:
    columns = {"a:1": 0.5, "a:2": 1.5, "b:1": 2.5, "b:2": 3.5, "b:3": 4.5}
    rows = [",".join(columns)] + [
        ",".join(str(value + row) for value in columns.values()) for row in range(N)
    ]
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    assert import_file(shared(), tmp_path / "t.csv.gz", home) == home / "drive.csv.gz"
    assert load(shared(), home=home).widths == WIDTHS


def test_a_file_without_an_ending(home: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match="no ending that tells its format"):
        import_file(shared(), tmp_path / "file", home)


def test_an_extra_column_is_cut_off_only_where_the_catalogue_says_so(
    home: Path, tmp_path: Path
) -> None:
    source = write_mat(tmp_path / "wide.mat", widths=(3, 5))
    with pytest.raises(DataError, match="it has 12 samples · views of 3, 5"):
        import_file(shared(widths=(2, 4)), source, home)
    entry = shared(widths=(2, 4), extra_column=True)
    import_file(entry, source, home)
    data = load(entry, home=home)
    assert data.widths == (2, 4)
    wide = tables(widths=(3, 5))
    np.testing.assert_array_equal(data.arrays[0], wide["X1"][:, :2])
    assert "the last column of every view is cut off: it is no feature" in data.provenance.layout
    np.testing.assert_array_equal(load(entry, home=home, views=["X2"])["X2"], wide["X2"][:, :4])
    import_file(entry, write_mat(tmp_path / "narrow.mat", widths=(2, 4)), home)
    np.testing.assert_array_equal(load(entry, home=home).arrays[0], tables(widths=(2, 4))["X1"])


# -- load --------------------------------------------------------------------------------------


def test_load_fetches_what_is_missing(web: Any, make_entry: Make, home: Path) -> None:
    content = mat_bytes()
    entry = make_entry(content, web.put("/a", content), filename="tiny.mat")
    with pytest.raises(
        FileError, match=r"not in .*home \(not fetched\)\. Run: dwcl data fetch tiny"
    ):
        load(entry, home=home, fetch_if_missing=False)
    assert web.asked == []
    data = load(entry, home=home)
    assert data.provenance.source == "catalogue:tiny"
    assert data.provenance.sha256 == entry.sha256
    assert data.widths == WIDTHS
    again = load(entry, home=home, fetch_if_missing=False)
    assert again.fingerprint() == data.fingerprint()
    (home / "tiny.mat").write_bytes(content[:-1] + b"!")
    with pytest.raises(FileError, match=r"is damaged \(another file: .* dwcl data fetch tiny"):
        load(entry, home=home, fetch_if_missing=False)
    assert web.asked == ["/a"]


def test_a_published_shape_that_is_wrong_is_said(web: Any, make_entry: Make, home: Path) -> None:
    content = mat_bytes()
    entry = make_entry(
        content, web.put("/a", content), filename="tiny.mat", n=99, shape_from="published"
    )
    assert any(
        "the catalogue says 99 samples; this file has 12 samples" in line
        for line in load(entry, home=home).provenance.layout
    )


def test_choices_of_reading_are_passed_on(web: Any, make_entry: Make, home: Path) -> None:
    content = mat_bytes()
    entry = make_entry(content, web.put("/a", content), filename="tiny.mat", widths=WIDTHS)
    data = load(entry, home=home, views=["X2"])
    assert data.widths == (3,)
    assert not any("catalogue" in line for line in data.provenance.layout)


def test_what_is_not_here_and_must_not_be_fetched(home: Path) -> None:
    with pytest.raises(FileError, match="Run: dwcl data import dha FILE"):
        load("dha", home=home, fetch_if_missing=False)
    with pytest.raises(FileError, match=r"\(to be built\)\. Run: dwcl data build fashion"):
        load("fashion", home=home, fetch_if_missing=False)


def test_the_embedded_digits_are_loaded() -> None:
    data = load("digits")
    assert data.provenance.source == "catalogue:digits"
    assert (data.n_samples, data.widths) == (find("digits").n, find("digits").widths)
    assert data.n_label_values == find("digits").classes
    with pytest.raises(SettingError, match="reads in one way only; leave out: transpose"):
        load("digits", transpose=True, views=None)


def test_fashion_is_built_and_loaded(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fashion.DEBIAN_FOLDER.is_dir():
        pytest.skip(f"the Fashion-MNIST images are not in {fashion.DEBIAN_FOLDER}")
    fashion.build_fashion(home=home, per_class=5)
    assert status("fashion", home) == "here"
    data = load("fashion", home=home)
    assert data.widths == (784, 784, 784)
    assert max(view.max() for view in data.arrays) == 1.0
    assert data.n_label_values == 10
    assert "built with seed 0, 5 samples per class" in data.provenance.layout
    assert any("50 samples" in line for line in data.provenance.layout)


def test_fashion_without_its_images_says_how_to_get_them(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fashion, "DEBIAN_FOLDER", tmp_path)
    with pytest.raises(FileError, match="install the package dataset-fashion-mnist"):
        load("fashion", home=home)


# -- resolve -----------------------------------------------------------------------------------


def test_a_name_or_a_path(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DWCL_DATA", str(home))
    assert resolve("catalogue:Digits").provenance.source == "catalogue:digits"
    path = write_mat(tmp_path / "mine.mat")
    for way in (path, str(path)):
        assert resolve(way, home=home, progress=True, views=["X1"]).widths == (2,)


def test_a_name_without_its_prefix_is_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match="For the data set of this name write: catalogue:scene15"):
        resolve("Scene_15")
    with pytest.raises(FileError, match=r"none\.mat"):
        resolve("none.mat")
