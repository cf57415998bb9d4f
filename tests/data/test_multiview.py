from __future__ import annotations

import copy
import hashlib
import pickle
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from dwcl.data.multiview import MultiView, Provenance, as_matrix, as_multiview
from dwcl.errors import DataError

A = np.arange(12, dtype=np.float64).reshape(4, 3)
B = np.array([[1, 0], [0, 2], [3, 0], [0, 0]], dtype=np.int16)


@pytest.fixture
def data() -> MultiView:
    return MultiView(
        {"a": A, "b": sp.csr_array(B)},
        sample_ids=np.array(["s1", "s2", "s3", "s4"]),
        labels=np.array([2, 0, 2, 2]),
        columns={"a": ("x", "y", "z")},
        provenance=Provenance(source="file.mat"),
    )


def dense(view: Any) -> Any:
    return view.toarray() if sp.issparse(view) else view


# -- what it is ------------------------------------------------------------------------------------


def test_the_facts(data: MultiView) -> None:
    assert (data.n_samples, data.n_views) == (4, 2)
    assert data.names == ("a", "b")
    assert data.widths == (3, 2)
    assert data.n_label_values == 2
    assert list(data) == ["a", "b"]
    assert data["a"] is A
    assert data.arrays[0] is A
    assert repr(data) == "MultiView(4 samples; a: 3, b: 2, 2 label values)"


def test_the_least_is_views_alone() -> None:
    data = MultiView({"a": A})
    assert data.sample_ids.tolist() == [0, 1, 2, 3]
    assert data.labels is None
    assert data.n_label_values is None
    assert dict(data.columns) == {}
    assert data.provenance == Provenance()
    assert repr(data) == "MultiView(4 samples; a: 3)"


def test_names_become_text() -> None:
    data = MultiView({1: A, 2: B}, columns={2: [7, 8]})  # type: ignore[dict-item]
    assert data.names == ("1", "2")
    assert data.columns == {"2": ("7", "8")}


def test_nothing_can_be_set(data: MultiView) -> None:
    with pytest.raises(FrozenInstanceError):
        data.labels = None  # type: ignore[misc]
    with pytest.raises(TypeError):
        data.views["c"] = A  # type: ignore[index]
    with pytest.raises(TypeError):
        data.columns["b"] = ("u", "v")  # type: ignore[index]


def test_the_callers_mapping_is_not_the_containers() -> None:
    views = {"a": A}
    data = MultiView(views)
    views["b"] = B
    assert data.names == ("a",)


def test_arrays_are_not_copied_nor_locked() -> None:
    own = A.copy()
    data = MultiView({"dense": own, "sparse": (csr := sp.csr_array(B))})
    assert data["dense"] is own
    assert np.shares_memory(data["sparse"].data, csr.data)  # type: ignore[union-attr]
    assert own.flags.writeable


@pytest.mark.parametrize(
    ("labels", "different"),
    [
        ([1, 1, 1, 1], 1),
        (["x", "y", "x", "z"], 3),
        ([0.5, np.nan, np.nan, 0.5], 2),
        (np.array(["x", None, "y", None], dtype=object), 3),
    ],
)
def test_label_values_are_counted_whatever_they_are(labels: Any, different: int) -> None:
    data = MultiView({"a": A}, labels=labels)
    assert data.n_label_values == different
    assert repr(data).endswith(f"{different} label values)")


@pytest.mark.parametrize(
    "there_and_back", [copy.copy, copy.deepcopy, lambda data: pickle.loads(pickle.dumps(data))]
)
def test_it_can_be_copied_and_sent_to_a_process(
    data: MultiView, there_and_back: Callable[[MultiView], MultiView]
) -> None:
    other = there_and_back(data)
    assert other.fingerprint() == data.fingerprint()
    assert other.sample_ids.tolist() == data.sample_ids.tolist()
    assert other.labels is not None
    assert other.labels.tolist() == [2, 0, 2, 2]
    assert other.columns == data.columns
    assert other.provenance == data.provenance
    with pytest.raises(TypeError):
        other.views["c"] = A  # type: ignore[index]


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"views": {}}, "No view was given; at least one table"),
        (
            {"views": [A, B]},
            "takes a mapping from names to tables, and got list. dwcl.as_multiview",
        ),
        ({"views": A}, "takes a mapping from names to tables, and got numpy.ndarray"),
        ({"views": {1: A, "1": B}}, "Two views have the same name among: 1, 1."),
        (
            {"views": {"a": A, "b": B[:3]}},
            "different numbers of samples: 'a' 4, 'b' 3. Every view must describe the same samples",
        ),
        (
            {"views": {"a": A}, "sample_ids": [1, 2, 3]},
            "The sample ids have shape (3,), but the views have 4 samples",
        ),
        (
            {"views": {"a": A}, "sample_ids": ["p", "q", "p", "r"]},
            "The sample id 'p' occurs more than once",
        ),
        ({"views": {"a": A}, "sample_ids": [[1], [2, 3]]}, "The sample ids (list) cannot be used"),
        (
            {"views": {"a": A}, "labels": np.zeros((4, 1))},
            "The labels have shape (4, 1), but the views have 4 samples; one value per sample",
        ),
        ({"views": {"a": A}, "labels": [[1], [2, 3]]}, "The labels (list) cannot be used"),
        (
            {"views": {"a": A}, "columns": {"a": ("x", "y")}},
            "2 column names came for view 'a', which has 3.",
        ),
        (
            {"views": {"a": A}, "columns": {"z": ("x",)}},
            "1 column names came for view 'z', which has no table.",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        MultiView(**arguments)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.zeros(4), "View 'a' has shape (4,); a table of samples × features (2-D) is expected"),
        (np.zeros((4, 3, 2)), "View 'a' has shape (4, 3, 2); a table of samples × features"),
        (None, "View 'a' has shape ()"),
        ("text", "View 'a' has shape ()"),
        (A + 1j, "Complex data not supported: view 'a' has type complex128."),
        (sp.csr_array(A + 1j), "Complex data not supported: view 'a' has type complex128."),
        (np.array([["x", "y"]]), "View 'a' has type <U1; numbers are expected. Encode text"),
        (np.array([[1, None]], dtype=object), "View 'a' has type object; numbers are expected."),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), "has type datetime64[D]; numbers"),
        (np.zeros((0, 3)), "View 'a' has 0 samples and 3 features; at least one of each"),
        (np.zeros((4, 0)), "View 'a' has 4 samples and 0 features; at least one of each"),
        ([[1.0, 2.0], [3.0]], "The values of view 'a' (list) cannot be used as an array"),
        (torch.eye(3).to_sparse(), "The values of view 'a' (torch.Tensor) cannot be used as an"),
        (np.ma.masked_less(A, 2.0), "View 'a' has masked entries"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(table: Any, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        as_matrix(table, "a")


# -- tables ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [np.bool_, np.int8, np.uint16, np.int64, np.float16, np.float32, np.float64]
)
def test_every_real_type_stays_as_it_is(kind: type[np.generic]) -> None:
    view = np.eye(3).astype(kind)
    assert as_matrix(view, "a") is view


@pytest.mark.parametrize(
    "make", [sp.csr_matrix, sp.csc_matrix, sp.coo_array, sp.lil_array, sp.csr_array, sp.dok_array]
)
def test_sparse_tables_are_kept_by_rows(make: Any) -> None:
    found = as_matrix(make(B), "a")
    assert isinstance(found, sp.csr_array)
    assert found.dtype == np.int16
    np.testing.assert_array_equal(found.toarray(), B)


def test_tensors_share_their_memory() -> None:
    tensor = torch.arange(6.0).reshape(3, 2)
    found = as_matrix(tensor, "a")
    tensor[0, 0] = 7.0
    assert found[0, 0] == 7.0


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64, torch.int32])
def test_tensors_of_any_type(kind: torch.dtype) -> None:
    found = as_matrix(torch.eye(2).to(kind), "a")
    np.testing.assert_array_equal(found, np.eye(2))


def test_a_tensor_with_a_gradient_is_cut_off() -> None:
    found = as_matrix(torch.eye(2, requires_grad=True) * 2, "a")
    np.testing.assert_array_equal(found, 2 * np.eye(2))


def test_a_mask_that_hides_nothing_is_no_obstacle() -> None:
    np.testing.assert_array_equal(as_matrix(np.ma.masked_less(A, -1), "a"), A)


# -- others of its kind ----------------------------------------------------------------------------


def test_select_takes_views_in_the_order_of_the_names(data: MultiView) -> None:
    swapped = data.select(["b", "a"])
    assert swapped.names == ("b", "a")
    assert swapped["a"] is A
    assert dict(data.select(["b"]).columns) == {}
    assert dict(swapped.columns) == {"a": ("x", "y", "z")}
    assert swapped.labels is data.labels
    assert swapped.provenance is data.provenance


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pixels", "There is no view 'pixels'. Known: a, b."),
        (0, "There is no view '0'. Known: a, b."),
    ],
)
def test_an_unknown_view_is_refused_with_those_that_are_known(
    data: MultiView, name: Any, message: str
) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        data[name]
    with pytest.raises(DataError, match=re.escape(message)):
        data.select([name])


def test_a_view_almost_named_is_hinted_at() -> None:
    with pytest.raises(DataError, match=r"no view 'View1'\. Did you mean 'view1'\?"):
        MultiView({"view1": A, "pixels": A})["View1"]


@pytest.mark.parametrize(
    "rows", [[2, 0], np.array([True, False, True, False]), slice(None), [-1], range(1, 3)]
)
def test_take_chooses_samples_everywhere(data: MultiView, rows: Any) -> None:
    rows = np.arange(4)[rows] if isinstance(rows, slice) else rows
    part = data.take(rows)
    index = np.arange(4)[np.asarray(rows)]
    for name, whole in (("a", A), ("b", B)):
        np.testing.assert_array_equal(dense(part[name]), whole[index])
    assert sp.issparse(part["b"])
    assert part.sample_ids.tolist() == data.sample_ids[index].tolist()
    assert part.labels is not None
    assert part.labels.tolist() == np.array([2, 0, 2, 2])[index].tolist()
    assert part.columns == data.columns


def test_take_without_labels() -> None:
    assert MultiView({"a": A}).take([1, 3]).sample_ids.tolist() == [1, 3]
    assert MultiView({"a": A}).take([1, 3]).labels is None


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([4], r"These rows cannot be taken of 4 samples: index 4 .* Positions from 0 to 3, or a"),
        ([True, False], r"These rows cannot be taken of 4 samples: boolean index"),
        (["s1"], r"These rows cannot be taken of 4 samples"),
        ([0.5], r"These rows cannot be taken of 4 samples"),
        ([[0], [1, 2]], r"The rows \(list\) cannot be used as an array"),
        ([1, 1], r"The sample id 's2' occurs more than once"),
        (np.zeros(4, dtype=bool), r"View 'a' has 0 samples"),
    ],
)
def test_rows_that_are_not_there_are_refused(data: MultiView, rows: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        data.take(rows)


def test_labels_and_provenance_can_be_replaced(data: MultiView) -> None:
    other = data.with_labels([1, 2, 3, 4])
    assert other.n_label_values == 4
    assert data.n_label_values == 2
    assert other["a"] is A
    assert data.with_labels(None).labels is None
    with pytest.raises(DataError, match=r"The labels have shape \(1,\)"):
        data.with_labels(["one"])
    origin = Provenance(source="other", sha256="00", layout=("line",), scaling={"a": "minmax"})
    assert data.with_provenance(origin).provenance is origin


# -- fingerprint -----------------------------------------------------------------------------------


def test_the_fingerprint_is_that_of_names_shapes_types_and_values() -> None:
    digest = hashlib.sha256(b"a|<f8|(4, 3)|" + A.astype("<f8").tobytes())
    digest.update(b"b|<i2|(4, 2)|" + B.astype("<i2").tobytes())
    assert MultiView({"a": A, "b": B}).fingerprint() == digest.hexdigest()


def test_the_fingerprint_goes_by_values_not_by_memory(data: MultiView) -> None:
    found = data.fingerprint()
    csr = sp.csr_array(B)
    unsorted = sp.csr_array(
        (np.array([5, 4]), np.array([1, 0]), np.array([0, 2])), shape=(1, 2), dtype=np.int64
    )
    tidy = sp.csr_array(np.array([[4, 5]]))
    assert MultiView({"a": np.asfortranarray(A), "b": csr}).fingerprint() == found
    assert MultiView({"a": np.repeat(A, 2, axis=1)[:, ::2], "b": csr}).fingerprint() == found
    assert MultiView({"u": unsorted}).fingerprint() == MultiView({"u": tidy}).fingerprint()
    assert data.with_labels(None).fingerprint() == found


@pytest.mark.parametrize(
    "views",
    [
        {"b": A},
        {"a": A.astype(np.float32)},
        {"a": A.reshape(3, 4)},
        {"a": A + np.eye(4, 3) * 1e-12},
        {"a": A[::-1]},
        {"a": A, "b": B},
    ],
)
def test_another_fingerprint_for_other_data(views: dict[str, Any]) -> None:
    assert MultiView(views).fingerprint() != MultiView({"a": A}).fingerprint()


@given(n=st.integers(4090, 4100), d=st.integers(1, 3), seed=st.integers(0, 99))
def test_the_fingerprint_sees_every_row(n: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    view = rng.random((n, d))
    before = MultiView({"a": view}).fingerprint()
    view[rng.integers(n), rng.integers(d)] += 1
    assert MultiView({"a": view}).fingerprint() != before


# -- from whatever a user holds --------------------------------------------------------------------


@pytest.mark.parametrize(
    "given_data",
    [
        [A, B],
        (A, B),
        [torch.from_numpy(A), torch.from_numpy(B)],
        [A.tolist(), B.tolist()],
        [A, sp.csc_matrix(B)],
        {"view1": A, "view2": B},
    ],
)
def test_several_tables_are_several_views(given_data: Any) -> None:
    data = as_multiview(given_data, labels=[0, 1, 0, 1])
    assert data.names == ("view1", "view2")
    np.testing.assert_array_equal(dense(data["view1"]), A)
    np.testing.assert_array_equal(dense(data["view2"]), B)
    assert data.labels is not None
    assert data.labels.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    "table", [A, A.tolist(), torch.from_numpy(A), sp.csr_matrix(A), sp.dok_array(A), list(A)]
)
def test_one_table_is_one_view(table: Any) -> None:
    data = as_multiview(table)
    assert data.names == ("view1",)
    np.testing.assert_array_equal(dense(data["view1"]), A)
    assert data.labels is None


def test_a_multiview_stays_what_it_is(data: MultiView) -> None:
    assert as_multiview(data) is data
    relabelled = as_multiview(data, labels=[0, 1, 2, 3])
    assert relabelled.n_label_values == 4
    assert relabelled["a"] is A


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_data_frames_bring_their_columns(library: Any) -> None:
    frame = library({"x": [1.0, 2.0], "y": [3.0, 4.0]})
    for given_data, names in [
        (frame, ("view1",)),
        ([frame, frame], ("view1", "view2")),
        ({"u": frame, "w": frame}, ("u", "w")),
    ]:
        data = as_multiview(given_data, labels=[1, 2])
        assert data.names == names
        for name in names:
            assert data.columns[name] == ("x", "y")
            np.testing.assert_array_equal(data[name], [[1.0, 3.0], [2.0, 4.0]])
        assert data.n_label_values == 2


def test_data_frames_are_matched_by_their_index() -> None:
    frames = {
        "u": pd.DataFrame({"x": [1.0, 2.0, 3.0]}, index=["p", "q", "r"]),
        "w": pd.DataFrame({"y": [30.0, 10.0]}, index=["r", "p"]),
    }
    data = as_multiview(frames)
    assert data.sample_ids.tolist() == ["p", "r"]
    assert np.asarray(data["u"]).tolist() == [[1.0], [3.0]]
    assert np.asarray(data["w"]).tolist() == [[10.0], [30.0]]
    assert "left out: 1 of view 'u' (q)" in data.provenance.layout[0]


@pytest.mark.parametrize("make", [list, lambda tables: {"first": tables[0], "second": tables[1]}])
def test_frames_beside_arrays_are_refused(make: Any) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0]}, index=["p", "q"])
    match = r"View '\w+' is a data frame and view '\w+' is not, so it is open how their rows"
    with pytest.raises(DataError, match=match):
        as_multiview(make([frame, np.eye(2)]))
    with pytest.raises(DataError, match=match):
        as_multiview(make([np.eye(2), frame]))


@pytest.mark.parametrize(
    ("given_data", "message"),
    [
        (None, "None came"),
        ([], "View 'view1' has shape (0,)"),
        ({}, "No view was given"),
        ("Scene_15.mat", "Read it first: dwcl.read('Scene_15.mat')"),
        (np.stack([A, A]), "View 'view1' has shape (2, 4, 3)"),
        ([A, B[:3]], "different numbers of samples: 'view1' 4, 'view2' 3"),
        ([A, [1, 2, 3, 4]], "The values of view 'view1' (list) cannot be used as an array"),
        ({"u": A, "w": None}, "View 'w' has shape ()"),
    ],
)
def test_what_is_no_data_is_refused(given_data: Any, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        as_multiview(given_data)
