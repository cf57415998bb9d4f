"""Samples that lack a view: rows of NaN, whatever form the view has."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from dwcl.data import blocks
from dwcl.data.missing import missing_rows, observed_blocks, observed_rows
from dwcl.data.multiview import MultiView
from dwcl.errors import DataError

OBSERVED = np.array([[1, 0], [1, 1], [0, 1], [1, 1], [1, 0]], dtype=bool)
A = np.arange(15, dtype=np.float64).reshape(5, 3)
B = np.arange(10, dtype=np.int16).reshape(5, 2)


def dense(view: Any) -> np.ndarray:
    return view.toarray() if sp.issparse(view) else np.asarray(view)


def test_only_rows_without_any_number_are_missing() -> None:
    nan = np.nan
    block = np.array([[nan, nan], [nan, 1], [1, nan], [0, 0], [nan, np.inf]])
    assert missing_rows(block).tolist() == [True, False, False, False, False]
    assert missing_rows(np.zeros((2, 3), dtype=np.uint8)).tolist() == [False, False]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, np.asfortranarray])
@pytest.mark.parametrize("entries", [3, 6, 100])
def test_rows_are_found_by_blocks(form: Any, entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ENTRIES", entries)
    x = A.copy()
    x[[0, 3, 4]] = np.nan
    x[1, 0] = np.nan
    assert observed_rows(form(x)).tolist() == [False, True, True, False, False]
    found = list(observed_blocks(form(x)))
    assert [i for rows, _ in found for i in rows.tolist()] == [1, 2]
    assert_array_equal(np.concatenate([block for _, block in found]), x[1:3])


def test_rows_that_are_nan_are_what_the_container_tells_of() -> None:
    data = MultiView({"a": np.where(OBSERVED[:, :1], A, np.nan), "b": B})
    assert data.observed.dtype == np.bool_
    assert_array_equal(data.observed[:, 0], OBSERVED[:, 0])
    assert data.observed[:, 1].all()
    assert data.observed is data.observed
    assert not data.observed.flags.writeable
    assert MultiView({"a": A, "b": B}).observed.all()


@pytest.mark.parametrize(
    "given",
    [
        OBSERVED,
        OBSERVED.astype(int),
        OBSERVED.tolist(),
        {"b": OBSERVED[:, 1], "a": OBSERVED[:, 0]},
        pd.DataFrame({"b": OBSERVED[:, 1], "a": OBSERVED[:, 0]}),
    ],
    ids=["truth", "numbers", "list", "mapping", "frame"],
)
def test_a_table_goes_into_the_views(given: Any) -> None:
    data = MultiView({"a": A, "b": B}, observed=given)
    assert_array_equal(data.observed, OBSERVED)
    assert_array_equal(data["a"][OBSERVED[:, 0]], A[OBSERVED[:, 0]])
    assert np.isnan(data["a"][~OBSERVED[:, 0]]).all()
    assert_array_equal(data["b"][OBSERVED[:, 1]], B[OBSERVED[:, 1]])
    assert np.isfinite(A).all()  # of the caller's array a copy was made


def test_views_that_lack_nothing_are_not_copied() -> None:
    data = MultiView({"a": A, "b": B}, observed={"b": OBSERVED[:, 1]})
    assert data["a"] is A
    assert MultiView({"a": A, "b": B}, observed=np.ones((5, 2)))["b"] is B


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (bool, np.float32),
        (np.uint8, np.float32),
        (np.int32, np.float64),
        (np.float16, np.float16),
        (np.float32, np.float32),
    ],
)
def test_whole_numbers_become_numbers_that_hold_them(dtype: type, expected: type) -> None:
    x = np.array([[1, 0], [0, 1], [1, 1]], dtype=dtype)
    data = MultiView({"a": x}, observed=[[1], [0], [1]])
    assert data["a"].dtype == expected
    assert_array_equal(data["a"][[0, 2]], x[[0, 2]])


def test_a_sparse_view_stores_its_missing_rows() -> None:
    x = sp.csr_array(np.array([[0, 2, 0], [5, 0, 0], [0, 0, 0], [1, 0, 3]]))
    data = MultiView({"a": x}, observed=[[1], [0], [1], [1]])
    assert sp.issparse(data["a"])
    expected = x.toarray().astype(float)
    expected[1] = np.nan
    assert_array_equal(data["a"].toarray(), expected)
    assert data["a"].nnz == 3 + 3
    assert data.observed[:, 0].tolist() == [True, False, True, True]


@pytest.mark.parametrize("kind", ["npy", "hdf5"])
def test_a_table_on_the_disk_stays_there(kind: str, tmp_path: Path) -> None:
    x = np.arange(2000, dtype=np.int32).reshape(1000, 2)
    observed = np.random.default_rng(0).random(1000) < 0.7
    if kind == "npy":
        np.save(tmp_path / "x.npy", x)
        view: Any = np.load(tmp_path / "x.npy", mmap_mode="r")
    else:
        file = h5py.File(tmp_path / "x.h5", "w")
        view = file.create_dataset("x", data=x)
    data = MultiView({"a": view}, observed={"a": observed})
    assert not isinstance(data["a"], np.ndarray)
    assert_array_equal(data.observed[:, 0], observed)
    expected = np.where(observed[:, None], x, np.nan)
    for rows in (slice(10, 40), [5, 900, 3], np.flatnonzero(~observed)):
        assert_array_equal(data["a"][rows], expected[rows])
    assert_array_equal(pickle.loads(pickle.dumps(data["a"]))[:], expected)


def test_what_is_missing_goes_along() -> None:
    data = MultiView({"a": A, "b": B}, observed=OBSERVED, labels=np.arange(5))
    assert_array_equal(data.take([4, 2, 0]).observed, OBSERVED[[4, 2, 0]])
    assert_array_equal(data.take(OBSERVED.all(axis=1)).observed, np.ones((2, 2)))
    assert_array_equal(data.select(["b"]).observed, OBSERVED[:, 1:])
    assert_array_equal(data.with_labels(None).observed, OBSERVED)
    assert_array_equal(data.with_provenance(data.provenance).observed, OBSERVED)
    assert_array_equal(replace(data, labels=None).observed, OBSERVED)
    filled = {name: np.nan_to_num(view) for name, view in data.views.items()}
    assert replace(data, views=filled).observed.all()
    for other in (copy.deepcopy(data), pickle.loads(pickle.dumps(data))):
        assert_array_equal(other.observed, OBSERVED)


def test_the_fingerprint_tells_what_is_missing() -> None:
    whole = MultiView({"a": A, "b": A})
    one, other = (MultiView({"a": A, "b": A}, observed=o) for o in (OBSERVED, OBSERVED[:, ::-1]))
    assert len({data.fingerprint() for data in (whole, one, other)}) == 3
    assert MultiView({"a": A, "b": A}, observed=OBSERVED).fingerprint() == one.fingerprint()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.ones((5, 3)), r"observed has shape \(5, 3\); one row per sample and one column for"),
        (np.ones(5), r"observed has shape \(5,\)"),
        (np.ones((4, 2)), r"shape \(4,\) for view 'a', but the views have 5 samples"),
        ({"c": np.ones(5)}, "observed names a view 'c', which the data do not have"),
        ({"b": np.full(5, 2)}, "for view 'b' that are neither true nor false"),
        ({"b": np.array([1, 0, np.nan, 1, 1])}, "neither true nor false"),
        ({"b": ["yes"] * 5}, "neither true nor false"),
    ],
)
def test_tables_that_do_not_fit_are_refused(given: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        MultiView({"a": A, "b": B}, observed=given)
