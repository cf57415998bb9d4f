"""Tables on the disk: the same rows as in memory, whatever is asked for."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dwcl
from dwcl import MultiView
from dwcl.data import ondisk
from dwcl.data.ondisk import DiskTable, FileTable, Hdf5Table, OpenHdf5Table, as_disk_table
from dwcl.errors import DataError, FileError

X = np.random.default_rng(0).integers(0, 200, size=(23, 5))


def table_of(kind: str, folder: Path, dtype: Any = np.float32) -> DiskTable:
    x = X.astype(dtype)
    if kind == "npy":
        np.save(folder / "x.npy", x)
        found = FileTable.of_npy(folder / "x.npy")
        assert found is not None
        return found
    if kind == "raw":
        (folder / "x").write_bytes(b"head" + x.tobytes())
        return FileTable(folder / "x", 4, x.shape, x.dtype)
    with h5py.File(folder / "x.h5", "w") as file:
        file["group/x"] = x
    return Hdf5Table(folder / "x.h5", "group/x")


@pytest.fixture(params=["npy", "raw", "hdf5"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> DiskTable:
    return table_of(request.param, tmp_path)


ROWS: list[Any] = [
    slice(None), slice(3, 9), slice(0, 0), slice(20, 99), slice(-4, None), slice(1, 20, 3),
    slice(None, None, -2), np.array([5]), np.array([22, 0, 7, 7, 3]), np.arange(23)[::-1],
    np.arange(23) % 3 == 0, [4, 2],
]  # fmt: skip


@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_rows_are_those_of_the_array(table: DiskTable, rows: Any) -> None:
    found = table[rows]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, X[rows])


@given(rows=st.lists(st.integers(0, 22), min_size=1, max_size=40), run=st.integers(1, 30))
def test_any_choice_of_rows_is_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[int], run: int
) -> None:
    found = table_of("raw", tmp_path_factory.mktemp("rows"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ondisk, "_RUN", run)
        np.testing.assert_array_equal(found[np.array(rows)], X[rows])


def test_it_has_the_form_of_an_array(table: DiskTable) -> None:
    assert (table.shape, table.ndim, len(table)) == ((23, 5), 2, 23)
    assert table.nbytes == 23 * 5 * 4
    np.testing.assert_array_equal(np.asarray(table), X)
    assert np.asarray(table, dtype=np.int16).dtype == np.int16
    np.testing.assert_array_equal(table.T, X.T)
    assert "23 × 5" in repr(table)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(table))[2:4], X[2:4])


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.int64, ">f8"])
def test_every_type_of_numbers_is_kept(tmp_path: Path, dtype: Any) -> None:
    found = table_of("npy", tmp_path, dtype)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found[1:3], X[1:3].astype(dtype))


@pytest.mark.parametrize("part", [slice(None), slice(4, 20), slice(7, 8)])
@pytest.mark.parametrize("offset", [0, 12, 5000])
def test_a_memory_map_or_a_part_of_it_is_found_in_its_file(
    tmp_path: Path, part: slice, offset: int
) -> None:
    path = tmp_path / "x.dat"
    path.write_bytes(bytes(offset) + X.astype(np.float32).tobytes())
    mapped = np.memmap(path, dtype=np.float32, mode="r", offset=offset, shape=X.shape)
    found = as_disk_table(mapped[part])
    assert isinstance(found, FileTable)
    np.testing.assert_array_equal(found[:], X[part])


def test_memory_maps_whose_rows_are_not_in_the_file_stay_arrays(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, X)
    assert as_disk_table(np.load(path, mmap_mode="r").T) is None
    assert as_disk_table(np.load(path, mmap_mode="r")[:, :2]) is None
    assert as_disk_table(np.load(path, mmap_mode="c")) is None  # changes are in memory alone
    assert as_disk_table(np.load(path, mmap_mode="r") + 1) is None
    assert as_disk_table(X) is None


@pytest.mark.parametrize("x", [np.asfortranarray(X), X.ravel(), X[:, :, None]])
def test_other_layouts_of_npy_files_are_none(tmp_path: Path, x: np.ndarray) -> None:
    np.save(tmp_path / "x.npy", x)
    assert FileTable.of_npy(tmp_path / "x.npy") is None


def test_a_data_set_of_an_open_file_is_read_from_it(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = X
        found = as_disk_table(file["x"])
        assert isinstance(found, OpenHdf5Table)
        np.testing.assert_array_equal(found[3:5], X[3:5])
        file.flush()
    with pytest.raises(DataError, match="has been closed"):
        found[3:5]
    with h5py.File(tmp_path / "x.h5", "r") as file:
        copied = pickle.loads(pickle.dumps(as_disk_table(file["x"])))
    np.testing.assert_array_equal(copied[3:5], X[3:5])


def test_a_file_that_is_cut_off_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, X)
    found = FileTable.of_npy(path)
    assert found is not None
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DataError, match=r"ends before row 23 of 23.*Get it again"):
        found[:]
    with pytest.raises(ValueError, match="8 bytes are missing"):
        FileTable.of_npy(path)


def test_a_file_that_is_gone_is_said_clearly(table: DiskTable) -> None:
    table.path.unlink()
    with pytest.raises(FileError, match=r"cannot be read any more.*put the file back"):
        table[:2]


def test_a_container_keeps_tables_on_the_disk(tmp_path: Path, table: DiskTable) -> None:
    data = MultiView({"a": table, "b": X[:, :2]}, labels=np.arange(23) % 3)
    assert isinstance(data["a"], DiskTable)
    assert data.widths == (5, 2)
    in_memory = MultiView({"a": X.astype(np.float32), "b": X[:, :2]})
    assert data.fingerprint() == in_memory.fingerprint()
    np.testing.assert_array_equal(data.take([4, 1])["a"], X[[4, 1]])
    assert isinstance(pickle.loads(pickle.dumps(data))["a"], DiskTable)


def test_large_files_are_left_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ondisk, "WORTHWHILE", 300)
    folder = tmp_path / "views"
    folder.mkdir()
    np.save(folder / "a.npy", X)
    np.save(folder / "b.npy", X[:, :2].astype(np.uint8))
    np.save(folder / "labels.npy", np.arange(23) % 3)
    data = dwcl.read(folder)
    assert isinstance(data["a"], FileTable)
    assert isinstance(data["b"], np.ndarray)
    np.testing.assert_array_equal(data["a"][:], X)
    assert data.n_label_values == 3
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X1"], file["X2"] = X, X[:, :2] + 0.5
    data = dwcl.read(tmp_path / "x.h5")
    assert isinstance(data["X1"], Hdf5Table)
    np.testing.assert_array_equal(data["X2"][4:6], X[4:6, :2] + 0.5)


def test_a_large_file_with_samples_in_columns_is_turned_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ondisk, "WORTHWHILE", 300)
    np.save(tmp_path / "x.npy", X)
    data = dwcl.read(tmp_path / "x.npy", transpose=True)
    np.testing.assert_array_equal(data["view1"], X.T)
    cut = (tmp_path / "x.npy").read_bytes()[:-8]
    (tmp_path / "x.npy").write_bytes(cut)
    with pytest.raises(FileError, match="damaged or its download stopped early"):
        dwcl.read(tmp_path / "x.npy")
