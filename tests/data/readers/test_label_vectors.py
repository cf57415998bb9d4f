"""Labels among the variables of a file, as the inference of layouts finds them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from dwcl.data.readers.base import Request
from dwcl.data.readers.labels import GivenLabels
from dwcl.data.readers.layout import Unusable, infer
from dwcl.errors import DataError

RNG = np.random.default_rng(0)
A = RNG.normal(size=(12, 5))  # 12 samples
B = RNG.normal(size=(12, 7))
Y = np.repeat([0, 1, 2], 4).reshape(-1, 1)


def read(variables, *, rows_in_doubt=False, **said):
    return infer(variables, Request(**said), rows_in_doubt=rows_in_doubt)


def assert_views(found, **expected):
    assert list(found.views) == list(expected)
    for name, table in expected.items():
        view = found.views[name]
        np.testing.assert_array_equal(view.toarray() if sp.issparse(view) else view, table)


@pytest.mark.parametrize(
    "name",
    [
        *("Y", "y", "gt", "gnd", "truth", "truelabel", "true_label", "labels", "Label"),
        *("ground_truth", "c", "s", "trainLabel", "group/labels"),
    ],
)
@pytest.mark.parametrize("shape", [(12, 1), (1, 12), (12,)])
def test_labels_are_found_by_name_in_a_row_or_a_column(name, shape):
    found = read({"X": [A, B], name: Y.reshape(shape)})
    np.testing.assert_array_equal(found.labels, Y[:, 0])


@pytest.mark.parametrize("start", [0, 1, -1])
def test_labels_keep_their_values_and_type(start):
    labels = (Y + start).astype(np.int16)
    found = read({"X": [A, B], "Y": labels}).labels
    np.testing.assert_array_equal(found, labels[:, 0])
    assert found.dtype == np.int16


def test_labels_may_be_text_floats_with_gaps_sparse_or_a_cell_of_single_values():
    words = np.array(["a", "b", "c"])[Y[:, 0]]
    gaps = np.where(Y == 2, np.nan, Y)
    np.testing.assert_array_equal(read({"X": [A, B], "Y": words}).labels, words)
    np.testing.assert_array_equal(read({"X": [A, B], "Y": gaps}).labels, gaps[:, 0])
    np.testing.assert_array_equal(read({"X": [A, B], "Y": sp.csc_array(Y)}).labels, Y[:, 0])
    np.testing.assert_array_equal(read({"X": [A, B], "Y": list(Y)}).labels, Y[:, 0])
    np.testing.assert_array_equal(
        read({"X": [A, B], "Y": [np.array([w]) for w in words]}).labels, words
    )


def test_labels_repeated_for_every_view_are_read_once():
    found = read({"data": [A.T, B.T], "truelabel": [Y, Y.T]})
    np.testing.assert_array_equal(found.labels, Y[:, 0])
    assert found.lines[2] == "labels: truelabel, 3 values (the same for every view)"


def test_labels_that_differ_between_views_are_refused_unless_others_are_given():
    variables = {"data": [A, B], "truelabel": [Y, Y[::-1]]}
    with pytest.raises(DataError, match="'truelabel' holds 2 vectors of labels that are not the"):
        read(variables)
    with pytest.raises(DataError, match="not the same"):
        read(variables, labels="truelabel")
    given = GivenLabels(Y[:, 0], None, "labels.csv")
    assert_views(read(variables, given_labels=given), view1=A, view2=B)


@pytest.mark.parametrize("form", [np.asarray, np.transpose, sp.csc_array])
def test_one_hot_labels_become_classes(form):
    found = read({"X": [A, B], "Y": form(np.eye(3)[Y[:, 0]])})
    np.testing.assert_array_equal(found.labels, Y[:, 0])
    assert found.lines[2] == "labels: Y, 3 values (one-hot in the file)"


def test_a_table_called_y_that_is_not_one_hot_is_a_view():
    found = read({"X": A, "Y": B})
    assert_views(found, X=A, Y=B)
    assert found.labels is None
    multi = np.ones((12, 2))
    assert_views(read({"X": A, "Y": multi}), X=A, Y=multi)


def test_measured_values_are_no_labels():
    found = read({"X": [A, B], "y": A[:, 0]})
    assert found.labels is None
    assert found.lines[-1] == "ignored: y (12)"


def test_a_clear_name_counts_more_than_a_possible_one():
    found = read({"c": Y[::-1], "X": [A, B], "gt": Y})
    assert found.lines[2] == "labels: gt, 3 values"
    assert found.lines[3] == "ignored: c (12 × 1)"


def test_a_number_of_classes_is_not_taken_for_labels():
    found = read({"X": [A, B], "c": np.array([[3]]), "class": np.array([[3]])})
    assert found.labels is None


def test_two_label_vectors_with_the_same_groups_are_one():
    found = read({"X": [A, B], "gt": Y, "label": Y + 1})
    np.testing.assert_array_equal(found.labels, Y[:, 0])


def test_two_label_vectors_that_differ_are_refused_until_one_is_named():
    variables = {"X": [A, B], "gt": Y, "label": Y % 2}
    with pytest.raises(DataError, match=r"two ways: gt or label, which differ.*labels='gt'"):
        read(variables)
    np.testing.assert_array_equal(read(variables, labels="label").labels, Y[:, 0] % 2)


def test_label_vectors_of_both_sides_are_refused_too():
    with pytest.raises(DataError, match="two ways: gt or label"):
        read({"X": [A, A + 1], "gt": Y, "label": np.arange(5)})


def test_any_vector_is_taken_for_labels_when_it_is_named():
    found = read({"X": [A, B], "grp/score": A[:, 0], "Y": Y}, labels="score")
    np.testing.assert_array_equal(found.labels, A[:, 0])


def test_labels_asked_for_that_are_none():
    with pytest.raises(DataError, match=r"labels='Z' is neither a variable of the data nor a file"):
        read({"X": [A, B], "Y": Y}, labels="Z")
    with pytest.raises(DataError, match="'X' does not hold labels: one value per sample"):
        read({"X": [A, B], "Y": Y}, labels="X")
    with pytest.raises(DataError, match="'note' does not hold labels"):
        read({"X": [A, B], "note": Unusable("a struct")}, labels="note")
    with pytest.raises(DataError, match="'Z' does not hold labels"):
        read({"X": [A, B], "Z": [Y, Y % 2, Unusable("a struct")]}, labels="Z")


def test_labels_of_another_length_are_refused():
    with pytest.raises(DataError, match="There are 11 labels, but the views are 'view1' 12 × 5"):
        read({"X": [A, B], "Y": Y[:-1]})
    with pytest.raises(DataError, match="There are 11 labels"):
        read({"X": [A, B], "label": Y, "Z": Y[:-1]}, labels="Z")
    with pytest.raises(DataError, match="There are 13 labels"):
        read({"X": [A, B]}, given_labels=GivenLabels(np.arange(13), None, "y.csv"))
