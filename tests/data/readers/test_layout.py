"""Inference of views, labels and orientation, on plain mappings without any file."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from dwcl.data.readers.base import Request
from dwcl.data.readers.layout import Unusable, infer
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
        np.testing.assert_array_equal(view.toarray() if sp.issparse(view) else view, table)


# -- which variables are views


@pytest.mark.parametrize("name", ["X", "x", "fea", "data", "features", "Views", "X_view"])
def test_a_cell_with_a_usual_name_holds_the_views(name):
    found = read({name: [A, B], "gt": Y})
    assert_views(found, view1=A, view2=B)
    assert found.lines == (
        f"views: cell {name} with 2 tables, 5 + 7 features",
        "orientation: samples in rows",
        "labels: gt, 3 values",
    )


@pytest.mark.parametrize(
    ("first", "second", "tenth"),
    [
        ("X1", "X2", "X10"),
        ("x_1", "x_2", "x_10"),
        ("view1", "view2", "view10"),
        ("X_1", "X_2", "X_10"),
        ("fea-1", "fea-2", "fea-10"),
        ("data01", "data02", "data10"),
    ],
)
def test_numbered_variables_are_views_in_the_order_of_their_numbers(first, second, tenth):
    found = read({tenth: C, second: B, first: A, "Y": Y})
    assert_views(found, **{first: A, second: B, tenth: C})


def test_numbered_variables_with_a_usual_name_go_before_other_cells_and_tables():
    found = read({"folds": [A[:, :2]], "X1": A, "X2": B, "W": C, "Y": Y})
    assert_views(found, X1=A, X2=B)
    assert found.lines[-1] == "ignored: folds (a cell of 1), W (12 × 3)"


def test_a_cell_with_any_name_holds_the_views_where_nothing_else_does():
    assert_views(read({"stuff": [A, B], "Y": Y}), view1=A, view2=B)


def test_tables_with_as_many_samples_as_labels_are_views():
    strange = RNG.integers(0, 9, size=(6, 4))
    found = read({"rna": A, "rand_test": strange, "protein": B.T, "truth": Y})
    assert_views(found, rna=A, protein=B)
    assert found.lines[0] == "views: variables rna, protein, 5 + 7 features"
    assert found.lines[1] == "orientation: samples in rows, but in columns (transposed) of protein"
    assert found.lines[-1] == "ignored: rand_test (6 × 4)"


def test_tables_that_share_their_rows_are_views_without_labels_too():
    found = read({"rna": A, "protein": B})
    assert_views(found, rna=A, protein=B)
    assert found.labels is None


def test_the_only_table_is_the_only_view():
    found = read({"features_of_all": A, "Y": Y, "k": np.array([[3]])})
    assert_views(found, view1=A)
    assert found.lines[0] == "views: variable features_of_all, 5 features"
    assert found.lines[-1] == "ignored: k (1 × 1)"


def test_a_group_with_a_usual_name_holds_the_views():
    found = read({"views/rna": A, "views/age": B, "other/thing": C, "y": Y[:, 0]})
    assert_views(found, rna=A, age=B)
    assert found.lines[-1] == "ignored: other/thing (12 × 3)"


def test_numbers_in_a_group_become_names():
    assert_views(read({"X/10": B, "X/2": A, "y": Y}), view2=A, view10=B)


def test_names_keep_their_groups_where_the_last_parts_are_the_same():
    found = read({"rna/values": A, "age/values": B, "y": Y})
    assert_views(found, **{"rna/values": A, "age/values": B})


def test_other_things_in_a_cell_are_passed_over_and_names_tell_the_place():
    found = read({"X": [A, Unusable("a struct"), np.array(["text"]), B], "Y": Y})
    assert_views(found, view1=A, view4=B)


def test_types_and_sparsity_are_kept_and_nothing_is_copied():
    counts = sp.csc_array(np.eye(12, 4, dtype=np.int16))
    small = A.astype(np.float32)
    found = read({"X": [small, counts.T, (A > 0).astype(np.uint8)], "Y": Y})
    assert [view.dtype for view in found.views.values()] == [np.float32, np.int16, np.uint8]
    assert sp.issparse(found.views["view2"])
    assert found.views["view2"].shape == (12, 4)
    assert np.shares_memory(found.views["view1"], small)


def test_complex_tables_come_through_so_that_they_can_be_refused_by_name():
    assert read({"X": [A + 1j, B], "Y": Y}).views["view1"].dtype.kind == "c"


# -- what the user says about views


def test_variables_are_chosen_by_name_in_the_order_of_the_names():
    found = read({"a": A, "b": B, "c3": C, "Y": Y}, views=["c3", "a"])
    assert_views(found, c3=C, a=A)


def test_views_are_chosen_by_their_inferred_names():
    assert_views(read({"X": [A, B, C], "Y": Y}, views=["view3", "view1"]), view3=C, view1=A)


def test_a_cell_is_chosen_by_its_name():
    found = read({"X": [A, B], "fea": [C, B], "Y": Y}, views=["fea"])
    assert_views(found, view1=C, view2=B)


def test_several_cells_give_names_with_theirs():
    found = read({"X": [A], "fea": [C, B], "Y": Y}, views=["X", "fea"])
    assert_views(found, X1=A, fea1=C, fea2=B)


def test_a_vector_is_a_view_of_one_feature_when_it_is_named():
    assert_views(read({"a": A, "age": A[:, 0], "Y": Y}, views=["a", "age"]), a=A, age=A[:, :1])


def test_a_name_of_labels_is_a_view_when_it_is_named():
    one_hot = np.eye(3)[Y[:, 0]]
    found = read({"Y": one_hot, "X": A}, views=["X", "Y"])
    assert_views(found, X=A, Y=one_hot)
    assert found.labels is None


def test_the_last_part_of_a_name_is_enough():
    assert_views(read({"g/rna": A, "h/age": B, "y": Y}, views=["age"]), age=B)


@pytest.mark.parametrize(
    ("views", "message"),
    [
        (["proteine"], r"no view or variable 'proteine'\. Did you mean 'protein'\?"),
        (["note"], "'note' cannot be a view: it is a struct"),
        (["text"], "text: no table of samples × features is in there"),
    ],
)
def test_views_that_cannot_be_chosen(views, message):
    variables = {"rna": A, "protein": B, "note": Unusable("a struct"), "text": np.array(["a"])}
    with pytest.raises(DataError, match=message):
        read(variables, views=views)


# -- graphs


def graph(kind):
    links = (RNG.random((12, 12)) < 0.3).astype(float)
    if kind == "symmetric":
        return np.maximum(links, links.T)
    np.fill_diagonal(links, 0)
    return sp.csc_array(links) if kind == "sparse" else links


@pytest.mark.parametrize("kind", ["symmetric", "directed", "sparse"])
def test_graphs_beside_a_view_are_left_out_and_said(kind):
    found = read({"X": [A.T, graph(kind), graph(kind)], "Y": Y})
    assert_views(found, view1=A)
    assert found.lines[-1] == (
        "left out: view2, view3 (graphs of the samples; name them in views to use them)"
    )


def test_graphs_are_kept_when_they_are_named():
    links = graph("symmetric")
    assert_views(read({"X": [A.T, links], "Y": Y}, views=["X"]), view1=A, view2=links)
    assert_views(read({"X": [A.T, links], "Y": Y}, views=["view2"]), view2=links)


def test_a_square_table_of_features_lies_as_the_others_do():
    square = RNG.normal(size=(12, 12))
    assert_views(read({"X": [A, square], "Y": Y}), view1=A, view2=square)
    assert_views(read({"X": [A.T, square], "Y": Y}), view1=A, view2=square.T)
    with pytest.raises(DataError, match="two ways: 12 samples in rows, or 12 samples in columns"):
        read({"X": [A.T, B, square], "Y": Y})


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_graphs_alone_are_views_if_both_readings_are_the_same(form):
    links = graph("symmetric")
    assert_views(read({"X": [form(links), form(links)], "Y": Y}), view1=links, view2=links)
    with pytest.raises(DataError, match="two ways"):
        read({"X": [form(graph("directed"))], "Y": Y})


# -- nothing, or too much


def test_several_candidates_are_refused_by_name():
    with pytest.raises(DataError, match=r"2 ways: cell X \(2 tables\) or fea \(1 tables\).*views="):
        read({"X": [A, B], "fea": [C], "Y": Y})
    with pytest.raises(DataError, match=r"2 ways: X1, X2 or V1, V2. Say which with views"):
        read({"X1": A, "X2": B, "V1": A, "V2": C, "Y": Y})
    with pytest.raises(DataError, match=r"2 ways: cell a .* or b"):
        read({"a": [A, B], "b": [C], "Y": Y})


def test_a_file_without_tables_lists_what_it_holds():
    message = (
        r"No table of samples × features was found; the file holds Y \(12 × 1\), s \(a struct\), "
        r"c \(a cell of 0\), t \(text\), k \(a number\)\. Views are expected as matrices"
    )
    variables = {"Y": Y, "s": Unusable("a struct"), "c": [], "t": np.array(["x"]), "k": np.array(3)}
    with pytest.raises(DataError, match=message):
        read(variables)
    with pytest.raises(DataError, match="the file holds no variables"):
        read({})


def test_other_tables_do_not_stand_in_for_views_that_cannot_be_read():
    with pytest.raises(
        DataError, match=r"'X' should hold the views, but it is a struct. Save each"
    ):
        read({"X": Unusable("a struct"), "weights": A, "Y": Y})
    assert_views(
        read({"X": Unusable("a struct"), "weights": A, "Y": Y}, views=["weights"]), weights=A
    )
