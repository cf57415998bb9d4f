"""Data frames of pandas, polars and pyarrow as views."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from dwcl.data.frames import from_frames, is_frame
from dwcl.data.multiview import as_multiview
from dwcl.errors import DataError, MissingExtraError

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

MAKERS = pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])


@MAKERS
def test_frames_are_known(make):
    assert is_frame(make({"a": [1]}))


@pytest.mark.parametrize(
    "thing", [np.eye(2), [[1]], {"a": 1}, None, pd.Series([1]), pl.Series([1])]
)
def test_other_things_are_no_frames(thing):
    assert not is_frame(thing)


def test_subclasses_and_lazy_frames_are_known():
    class Mine(pd.DataFrame):
        pass

    assert is_frame(Mine({"a": [1]}))
    assert is_frame(pl.LazyFrame({"a": [1]}))


def test_asking_imports_no_library_of_frames():
    code = (
        "import sys, numpy; from dwcl.data.frames import is_frame; is_frame(numpy.eye(2));"
        "print([m for m in ('pandas', 'polars', 'narwhals', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_without_narwhals_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals.stable.v1", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dwcl\[tables\]'"):
        from_frames({"a": pd.DataFrame({"x": [1]})})


# -- values


@MAKERS
def test_values_columns_and_order_are_kept(make):
    found = from_frames({"a": make({"x": [3.0, 1.0], "y": [2.0, 4.0]}), "b": make({"z": [5, 6]})})
    np.testing.assert_array_equal(found["a"], [[3, 2], [1, 4]])
    np.testing.assert_array_equal(found["b"], [[5], [6]])
    assert found.columns == {"a": ("x", "y"), "b": ("z",)}
    assert found.sample_ids.tolist() == [0, 1]
    assert found.provenance.layout == ()


@MAKERS
def test_types_are_joined_and_gaps_become_nan(make):
    found = from_frames({"a": make({"x": [1, 2], "y": [True, False]})})
    np.testing.assert_array_equal(found["a"], [[1, 1], [2, 0]])
    assert found["a"].dtype.kind == "i"
    found = from_frames({"a": make({"x": [1, None], "y": [0.5, 1.5]})})
    np.testing.assert_array_equal(found["a"], [[1, 0.5], [np.nan, 1.5]])


def test_one_type_is_kept_and_nullable_columns_become_floats():
    assert from_frames({"a": pd.DataFrame(np.eye(2, dtype=np.float32))})["a"].dtype == np.float32
    gaps = pd.DataFrame({"x": pd.array([1, None], dtype="Int64")})
    np.testing.assert_array_equal(from_frames({"a": gaps})["a"], [[1], [np.nan]])
    gaps = pd.DataFrame({"x": pd.array([1, 2], dtype="Int64"), "y": [1.5, 2]})
    np.testing.assert_array_equal(from_frames({"a": gaps})["a"], [[1, 1.5], [2, 2]])


def test_decimal_numbers_become_floats():
    frame = pl.DataFrame({"x": ["1.5", None]}).cast(pl.Decimal(10, 2))
    np.testing.assert_array_equal(from_frames({"a": frame})["a"], [[1.5], [np.nan]])


@pytest.mark.parametrize(
    "column", [["p", "q"], pd.Categorical(["p", "q"]), pd.to_datetime(["2020-01-01", "2020-01-02"])]
)
def test_columns_that_are_no_numbers_are_named(column):
    frame = pd.DataFrame({"x": [1, 2], "city": column})
    with pytest.raises(DataError, match=r"Column 'city' of view 'a' holds .*, not numbers"):
        from_frames({"a": frame})


def test_frames_that_cannot_be_used():
    with pytest.raises(DataError, match=r"View 'a' cannot be used as a data frame.*collect a lazy"):
        from_frames({"a": pl.LazyFrame({"x": [1]})})
    with pytest.raises(DataError, match="View 'a' cannot be used"):
        from_frames({"a": pd.DataFrame([[1, 2]], columns=["x", "x"])})
    with pytest.raises(DataError, match="View 'a' has no columns of features"):
        from_frames({"a": pd.DataFrame({"id": [1, 2]})}, id_column="id")
    with pytest.raises(DataError, match="No view was given"):
        from_frames({})


# -- matching


@MAKERS
def test_rows_are_matched_by_the_id_column(make, caplog):
    found = from_frames(
        {
            "a": make({"id": ["s3", "s1", "s2"], "x": [3, 1, 2]}),
            "b": make({"id": ["s1", "s3", "s9"], "y": [10, 30, 90]}),
        },
        id_column="id",
    )
    assert found.sample_ids.tolist() == ["s3", "s1"]
    np.testing.assert_array_equal(found["a"], [[3], [1]])
    np.testing.assert_array_equal(found["b"], [[30], [10]])
    line = "samples: 2 are in all views; left out: 1 of view 'a' (s2), 1 of view 'b' (s9)"
    assert found.provenance.layout == (line,)
    assert caplog.messages == [line]


def test_rows_are_matched_by_the_index_where_one_frame_has_one():
    a = pd.DataFrame({"x": [3, 1, 2]}, index=["s3", "s1", "s2"])
    b = pd.DataFrame({"y": [10, 20, 30]}, index=["s1", "s2", "s3"])
    found = from_frames({"a": a, "b": b})
    assert found.sample_ids.tolist() == ["s3", "s1", "s2"]
    np.testing.assert_array_equal(found["b"], [[30], [10], [20]])
    default = pd.DataFrame({"z": [0, 1, 2, 3]})
    found = from_frames({"a": default, "b": default.iloc[[3, 1]]})
    assert found.sample_ids.tolist() == [1, 3]
    np.testing.assert_array_equal(found["b"], [[1], [3]])


def test_the_same_order_needs_no_copy():
    values = np.arange(6.0).reshape(3, 2)
    frame = pd.DataFrame(values, index=["a", "b", "c"])
    found = from_frames({"a": frame, "b": frame})
    assert np.shares_memory(found["a"], frame.to_numpy())


def test_a_named_index_can_be_the_id_column():
    a = pd.DataFrame({"x": [1, 2]}, index=pd.Index(["s1", "s2"], name="id"))
    b = pl.DataFrame({"id": ["s2", "s1"], "y": [20, 10]})
    found = from_frames({"a": a, "b": b}, id_column="id")
    np.testing.assert_array_equal(found["b"], [[10], [20]])


def test_an_index_of_several_levels_matches_rows():
    index = pd.MultiIndex.from_tuples([("s1", 0), ("s1", 1)])
    found = from_frames(
        {
            "a": pd.DataFrame({"x": [1, 2]}, index=index),
            "b": pd.DataFrame({"y": [20, 10]}, index=index[::-1]),
        }
    )
    np.testing.assert_array_equal(found["b"], [[10], [20]])
    assert found.sample_ids.tolist() == ["s1 0", "s1 1"]


def test_a_frame_without_an_index_beside_one_with_ids_is_refused():
    a = pd.DataFrame({"x": [1, 2]}, index=["s1", "s2"])
    with pytest.raises(DataError, match=r"View 'b' has no index .*Name a column of ids"):
        from_frames({"a": a, "b": pl.DataFrame({"y": [1, 2]})})


def test_positions_need_equal_lengths():
    with pytest.raises(DataError, match="different numbers of samples: 'a' 2, 'b' 3"):
        from_frames({"a": pd.DataFrame({"x": [1, 2]}), "b": pd.DataFrame({"y": [1, 2, 3]})})


def test_ids_that_do_not_tell_samples_apart():
    a = pl.DataFrame({"id": ["s1", "s1"], "x": [1, 2]})
    with pytest.raises(DataError, match="sample id 's1' occurs more than once in view 'a'"):
        from_frames({"a": a}, id_column="id")
    twice = pd.DataFrame({"x": [1, 2]}, index=["s1", "s1"])
    with pytest.raises(DataError, match="occurs more than once in view 'b'"):
        from_frames({"a": pd.DataFrame({"y": [1]}, index=["s1"]), "b": twice})
    with pytest.raises(DataError, match="No sample is in all of the views"):
        from_frames({"a": pd.DataFrame({"y": [1]}, index=["s2"]), "b": twice.iloc[:1]})
    gap = pl.DataFrame({"id": ["s1", None], "x": [1, 2]})
    with pytest.raises(DataError, match="'id' of view 'a' has 1 rows without an id"):
        from_frames({"a": gap}, id_column="id")
    with pytest.raises(DataError, match=r"View 'a' has no column 'name'\. Known: id, x"):
        from_frames({"a": a}, id_column="name")


def test_a_single_frame_keeps_its_rows_even_if_they_are_repeated():
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0]}).iloc[[2, 0, 2]]
    found = as_multiview(frame)
    np.testing.assert_array_equal(found["view1"], [[3], [1], [3]])
    assert found.sample_ids.tolist() == [0, 1, 2]
    found = as_multiview(pd.DataFrame({"x": [1.0, 2.0, 3.0]}).iloc[[2, 0]])
    assert found.sample_ids.tolist() == [2, 0]
    np.testing.assert_array_equal(found["view1"], [[3], [1]])


def test_frames_in_lists_and_mappings():
    frame = pd.DataFrame({"x": [1, 2]})
    assert as_multiview([frame, frame]).names == ("view1", "view2")
    assert as_multiview({"u": frame, "w": frame}, labels=[0, 1]).labels.tolist() == [0, 1]


# -- labels


@MAKERS
def test_labels_in_a_column(make):
    found = from_frames(
        {
            "a": make({"id": [1, 2, 3], "x": [1, 2, 3]}),
            "b": make({"id": [3, 1], "y": [30, 10], "kind": ["p", "q"]}),
        },
        id_column="id",
        label_column="kind",
    )
    assert found.labels.tolist() == ["q", "p"]
    assert found.columns["b"] == ("y",)


def test_names_of_columns_need_not_be_text():
    frame = pd.DataFrame({0: [1, 2], 1: ["s", "t"], 2: [3, 4]})
    found = from_frames({"a": frame}, id_column="1", label_column="2")
    np.testing.assert_array_equal(found["a"], [[1], [2]])
    assert found.sample_ids.tolist() == ["s", "t"]
    assert found.labels.tolist() == [3, 4]


def test_a_label_column_that_is_not_there():
    with pytest.raises(DataError, match=r"no column 'knd'\. Did you mean 'kind'\?"):
        from_frames({"a": pd.DataFrame({"kind": [1]})}, label_column="knd")


def test_labels_as_values_are_in_the_order_of_the_first_frame():
    a = pd.DataFrame({"x": [1, 2, 3]}, index=["s1", "s2", "s3"])
    b = pd.DataFrame({"y": [1, 3]}, index=["s3", "s1"])
    assert from_frames({"a": a, "b": b}, labels=[7, 8, 9]).labels.tolist() == [7, 9]
    assert from_frames({"a": a, "b": b}, labels=pl.Series([7, 8, 9])).labels.tolist() == [7, 9]
    with pytest.raises(DataError, match=r"labels have shape \(2,\), but the first view has 3 rows"):
        from_frames({"a": a, "b": b}, labels=[7, 8])


def test_labels_as_a_series_or_frame_are_matched():
    a = pd.DataFrame({"x": [1, 2]}, index=["s1", "s2"])
    series = pd.Series([20, 10, 30], index=["s2", "s1", "s9"])
    assert from_frames({"a": a}, labels=series).labels.tolist() == [10, 20]
    assert from_frames({"a": a}, labels=series.to_frame("k")).labels.tolist() == [10, 20]
    assert from_frames({"a": a}, labels=pd.Series([5, 6])).labels.tolist() == [5, 6]
    assert from_frames({"a": a}, labels=pl.DataFrame({"k": [5, 6]})).labels.tolist() == [5, 6]
    by_id = pl.DataFrame({"id": ["s2", "s1"], "k": ["p", "q"], "l": [0, 1]})
    b = pl.DataFrame({"id": ["s1", "s2"], "x": [1, 2]})
    found = from_frames({"b": b}, id_column="id", labels=by_id, label_column="k")
    assert found.labels.tolist() == ["q", "p"]


def test_labels_that_cannot_be_matched():
    a = pd.DataFrame({"x": [1, 2]}, index=["s1", "s2"])
    with pytest.raises(DataError, match="1 of 2 samples have no label, such as 's2'"):
        from_frames({"a": a}, labels=pd.Series([1], index=["s1"]))
    with pytest.raises(DataError, match="more than one row for the same sample id"):
        from_frames({"a": a}, labels=pd.Series([1, 2], index=["s1", "s1"]))
    with pytest.raises(DataError, match="not clear which column holds the labels: k, l"):
        from_frames({"a": a}, labels=pl.DataFrame({"k": [1, 2], "l": [1, 2]}))
    with pytest.raises(DataError, match="Give either labels as values or the name of a label_col"):
        from_frames({"a": a}, labels=[1, 2], label_column="k")
