"""Where the samples of tables and images lie, as the inference of layouts finds out."""

from __future__ import annotations

import numpy as np
import pytest

from dwcl.data.readers.base import Request
from dwcl.data.readers.layout import infer
from dwcl.errors import DataError

RNG = np.random.default_rng(0)
A = RNG.normal(size=(12, 5))  # 12 samples
B = RNG.normal(size=(12, 7))
C = RNG.normal(size=(12, 3))
Y = np.repeat([0, 1, 2], 4).reshape(-1, 1)


def read(variables, *, rows_in_doubt=False, **said):
    return infer(variables, Request(**said), rows_in_doubt=rows_in_doubt)


def assert_views(found, **expected):
    assert list(found.views) == list(expected)
    for name, table in expected.items():
        view = found.views[name]
        np.testing.assert_array_equal(view, table)


def test_columns_are_samples_where_the_number_of_labels_says_so():
    found = read({"X": [A.T, B.T], "Y": Y})
    assert_views(found, view1=A, view2=B)
    assert found.lines[:2] == (
        "views: cell X with 2 tables, 5 + 7 features",
        "orientation: samples in columns (transposed)",
    )


def test_columns_are_samples_where_only_their_number_is_shared():
    assert_views(read({"X": [A.T, B.T]}), view1=A, view2=B)


def test_each_table_may_lie_its_own_way():
    found = read({"X": [A.T, B, C.T]})
    assert_views(found, view1=A, view2=B, view3=C)
    assert found.lines[1].endswith("in columns (transposed) of view1, view3")


def test_labels_decide_between_tables_of_the_same_shape():
    assert_views(read({"X": [A, A + 1], "Y": Y}), view1=A, view2=A + 1)
    assert_views(read({"X": [A.T, A.T + 1], "Y": Y}), view1=A, view2=A + 1)


@pytest.mark.parametrize("variables", [{"X": [A, A + 1]}, {"table": A}])
def test_two_possible_orientations_are_refused_with_both_and_the_flag(variables):
    message = (
        r"two ways: 12 samples in rows, or 5 samples in columns \(view1 is 12 × 5\).*"
        r"transpose=False \(--no-transpose\) for samples in rows or transpose=True \(--transpose\)"
    )
    with pytest.raises(DataError, match=message):
        read(variables)
    assert next(iter(read(variables, transpose=False).views.values())).shape == (12, 5)
    assert next(iter(read(variables, transpose=True).views.values())).shape == (5, 12)


def test_in_doubt_rows_are_samples_where_that_is_the_convention():
    assert_views(read({"table": A.T}, rows_in_doubt=True), view1=A.T)
    square = RNG.normal(size=(5, 5))
    assert_views(read({"table": square}, rows_in_doubt=True), view1=square)


def test_tables_of_one_column_have_many_samples_and_tables_of_one_row_one():
    assert read({"X": [A[:, :1], A[:, 1:2]], "Y": Y}).views["view1"].shape == (12, 1)
    assert read({"X": [A[:, :1], A[:, 1:2]]}).views["view1"].shape == (12, 1)
    assert read({"X": [A[:1], B[:1]]}).views["view1"].shape == (1, 5)
    one = read({"X": [A[:1], B[:1]], "Y": np.array([[2]])})
    np.testing.assert_array_equal(one.labels, [2])


def test_views_may_be_told_to_lie_in_columns_one_by_one():
    square = RNG.normal(size=(12, 12))
    found = read({"X": [square, A], "Y": Y}, transpose=["view1"], views=["X"])
    assert_views(found, view1=square.T, view2=A)
    found = read({"g/rna": A, "h/age": B.T, "y": Y}, transpose=["age"])
    assert_views(found, rna=A, age=B)


def test_wrong_words_about_orientation_are_refused():
    with pytest.raises(DataError, match=r"transpose names 'veiw1'.*Did you mean 'view1'"):
        read({"X": [A, B], "Y": Y}, transpose=["veiw1"])
    with pytest.raises(DataError, match="different numbers of samples"):
        read({"X": [A, B], "Y": Y}, transpose=True)
    with pytest.raises(DataError, match="There are 12 labels"):
        read({"X": [A, A], "Y": Y}, transpose=True)


def test_views_with_different_numbers_of_samples_are_refused():
    with pytest.raises(
        DataError, match="different numbers of samples: 'view1' 12 × 5, 'view2' 10 × 7"
    ):
        read({"X": [A, B[:10]], "Y": Y})
    with pytest.raises(DataError, match="not clear which variables are views: 'a' 12 × 5, 'b' 11"):
        read({"a": A, "b": B[:11]})


# -- images


@pytest.mark.parametrize("shape", [(12, 4, 4), (12, 4, 4, 1), (12, 4, 3), (12, 1, 4, 4)])
def test_images_are_flattened_in_their_order(shape):
    images = RNG.integers(0, 255, size=shape, dtype=np.uint8)
    found = read({"X1": images, "X2": A, "Y": Y})
    assert_views(found, X1=images.reshape(12, -1), X2=A)
    assert found.views["X1"].dtype == np.uint8


def test_images_with_samples_last_are_turned():
    images = RNG.normal(size=(12, 4, 3))
    found = read({"X": [np.moveaxis(images, 0, -1), A], "Y": Y})
    assert_views(found, view1=images.reshape(12, -1), view2=A)


def test_height_and_width_tell_the_samples_without_labels():
    images = RNG.normal(size=(12, 4, 4))
    assert_views(
        read({"X": [images, images + 1]}),
        view1=images.reshape(12, -1),
        view2=images.reshape(12, -1) + 1,
    )
    last = np.moveaxis(images, 0, -1)
    assert_views(read({"X": [last]}), view1=images.reshape(12, -1))
