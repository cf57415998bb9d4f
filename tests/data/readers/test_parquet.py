"""Parquet files."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from dwcl.data.readers import read
from dwcl.errors import DataError, FileError, MissingExtraError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def table(tmp_path):
    def write(**columns):
        path = tmp_path / "data.parquet"
        pq.write_table(pa.table(columns), path)
        return path

    return write


def test_columns_make_views_ids_and_labels(table):
    found = read(
        table(
            sample=["s1", "s2"],
            rna_a=np.array([1, 2], np.float32),
            rna_b=np.array([3, 4], np.float32),
            prot_a=[5, None],
            prot_b=[True, False],
            prot_c=[2, 3],
            prot_d=[4, 6],
            label=["cat", "dog"],
        )
    )
    assert found.names == ("rna", "prot")
    np.testing.assert_array_equal(found["prot"], [[5, 1, 2, 4], [np.nan, 0, 3, 6]])
    assert found.sample_ids.tolist() == ["s1", "s2"]
    assert found.labels.tolist() == ["cat", "dog"]
    assert found.provenance.layout[-1] == "type: Parquet"


def test_types_are_kept(table):
    assert read(table(a=np.array([1, 2], np.float32)))["view1"].dtype == np.float32
    assert read(table(a=np.array([1, 2], np.int16)))["view1"].dtype == np.int16


def test_missing_values_in_logical_columns_become_nan(table):
    np.testing.assert_array_equal(read(table(a=[True, None]))["view1"], [[1], [np.nan]])


def test_label_columns_of_floats_must_be_whole(table):
    assert read(table(a=[1, 2], y=[0.0, 1.0])).labels.tolist() == [0, 1]
    assert read(table(a=[1, 2], y=[0.5, 1.0])).labels is None


def test_the_index_of_a_data_frame_makes_ids(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2.0]}, index=["s1", "s2"])
    frame.to_parquet(tmp_path / "data.parquet")
    assert read(tmp_path / "data.parquet").sample_ids.tolist() == ["s1", "s2"]


def test_what_is_refused(table):
    with pytest.raises(DataError, match=r"column 'b': 'x' is not a number"):
        read(table(a=["s", "t"], b=["x", "y"], c=[1, 2]))
    with pytest.raises(DataError, match=r"column 'a' was taken for the sample ids, but 's'"):
        read(table(a=["s", "s"], c=[1, 2]))
    with pytest.raises(DataError, match="no rows, or no columns of features"):
        read(table(id=["s", "t"]))
    path = table(a=[1, 2])
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(FileError, match="cannot be read as a Parquet file: the file is damaged"):
        read(path)


def test_without_the_library_the_extra_is_named(table, monkeypatch):
    path = table(a=[1, 2])
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dwcl\[tables\]'"):
        read(path)
