"""Checks of values: what is refused, and what is only noted."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from dwcl.data import blocks
from dwcl.data.checks import LARGEST, check_finite, check_observed, check_values
from dwcl.data.multiview import MultiView
from dwcl.errors import DataError


def sound() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(8, 5))


@pytest.fixture(params=[1 << 17, 6], ids=["one block", "a row per block"])
def block_entries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(blocks, "BLOCK_ENTRIES", request.param)
    return int(request.param)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int32, np.uint8, bool])
def test_sound_values_give_no_notes(dtype: type) -> None:
    x = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0]]).astype(dtype)
    assert check_values(MultiView({"a": x})) == []
    check_finite(MultiView({"a": x}))


@pytest.mark.usefixtures("block_entries")
@pytest.mark.parametrize("check", [check_values, check_finite])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    ("value", "match"),
    [
        (
            np.nan,
            r"^View 'b' has 2 NaN values, the first in column 3 \(counted from 0\) of sample 4",
        ),
        (np.inf, r"^View 'b' has 2 infinite values, the first in column 3 .* sample 4\. .*inf"),
        (-np.inf, r"^View 'b' has 2 infinite values"),
        (1e20, r"^View 'b' has 2 huge values, .* sample 4 \(1e\+20\)\. Magnitudes up to 1\.8e\+19"),
        (-1e300, r"^View 'b' has 2 huge values, .* \(-1e\+300\)"),
    ],
)
def test_unusable_values_are_found(check, form, value: float, match: str) -> None:
    x = sound()
    x[4, 3] = x[6, 0] = value
    with pytest.raises(DataError, match=match):
        check(MultiView({"a": sound(), "b": form(x)}))


def test_one_value_is_worded_in_the_singular_with_names() -> None:
    x = sound()
    x[2, 1] = np.nan
    data = MultiView(
        {"a": x}, sample_ids=[f"p{i}" for i in range(8)], columns={"a": tuple("vwxyz")}
    )
    with pytest.raises(DataError, match=r"has 1 NaN value in column 'w' of sample 'p2'\. Fill"):
        check_values(data)


def test_the_gravest_sort_is_reported_first() -> None:
    x = sound()
    x[0, 0], x[1, 1], x[2, 2] = 1e30, np.inf, np.nan
    with pytest.raises(DataError, match="1 NaN value in column 2"):
        check_values(MultiView({"a": x}))


def test_the_largest_magnitude_is_the_last_whose_square_is_finite() -> None:
    x = sound()
    x[0, 0] = -LARGEST
    check_values(MultiView({"a": x}))
    with np.errstate(over="raise"):
        np.float32(LARGEST * (1 - 1e-6)) ** 2
    x[0, 0] = np.nextafter(LARGEST, np.inf)
    with pytest.raises(DataError, match="huge"):
        check_values(MultiView({"a": x}))


def test_a_view_without_differences_is_refused_for_training_only() -> None:
    data = MultiView({"a": sound(), "flat": np.tile([1.0, 2.0], (8, 1))})
    with pytest.raises(DataError, match=r"All 8 samples are the same in view 'flat'.*Leave this"):
        check_values(data)
    check_finite(data)


def test_one_sample_is_not_called_constant() -> None:
    assert check_values(MultiView({"a": [[1.0, 2.0]]})) == []


@pytest.mark.usefixtures("block_entries")
def test_constant_columns_are_noted() -> None:
    x = np.column_stack([sound(), np.full((8, 4), 7.0)])
    named = tuple(f"c{i}" for i in range(9))
    assert check_values(MultiView({"a": x[:, :6], "b": x}, columns={"b": named})) == [
        "View 'a': 1 of 6 columns are constant and carry no information (5).",
        "View 'b': 4 of 9 columns are constant and carry no information (c5, c6, c7, …).",
    ]


@pytest.mark.usefixtures("block_entries")
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_zero_rows_are_noted_where_they_matter(form) -> None:
    x = sound()
    x[[1, 3, 4, 6]] = 0
    data = MultiView({"a": form(x)})
    note = "View 'a': 4 of 8 samples are all zeros (1, 3, 4, …)."
    assert check_values(data) == [note]
    assert check_values(data, scaling_kinds={"a": "row-l2"}) == [note]
    assert check_values(data, scaling_kinds={"a": "minmax"}) == []
    check_finite(data)


@pytest.mark.usefixtures("block_entries")
def test_equal_views_are_noted() -> None:
    x = np.round(sound())
    other = x.copy()
    other[7, 4] += 1
    data = MultiView({"a": x, "b": sp.csr_array(x), "c": other, "d": x[:, :4]})
    notes = check_values(data, scaling_kinds=dict.fromkeys("abcd", "minmax"))
    assert notes == ["Views 'a' and 'b' are equal, so what they say counts twice."]


def with_gaps() -> MultiView:
    a, b = sound(), sound()
    a[[2, 5]] = np.nan
    b[3] = np.nan
    return MultiView({"a": a, "b": b}, sample_ids=[f"p{i}" for i in range(8)])


@pytest.mark.usefixtures("block_entries")
def test_missing_rows_are_no_fault_and_single_values_are() -> None:
    data = with_gaps()
    assert check_values(data) == []
    check_finite(data)
    data["a"][6, 1] = np.nan
    for check in (check_values, check_finite):
        with pytest.raises(DataError, match=r"1 NaN value in column 1 .* of sample 'p6'"):
            check(data)


def test_equal_views_with_equal_gaps_are_noted() -> None:
    one, other = with_gaps().arrays
    notes = check_values(MultiView({"a": one, "b": one.copy(), "c": other}))
    assert notes == ["Views 'a' and 'b' are equal, so what they say counts twice."]


def test_differences_are_looked_for_among_the_samples_that_a_view_has() -> None:
    x = sound()
    x[2:] = np.nan
    x[1] = x[0]
    with pytest.raises(DataError, match="All 2 samples are the same in view 'a'"):
        check_values(MultiView({"a": x}))
    x[1] = np.nan
    with pytest.raises(DataError, match="Only 1 of 8 samples has view 'a'"):
        check_values(MultiView({"a": x}))


def test_samples_and_views_of_which_nothing_is_known_are_refused() -> None:
    data = with_gaps()
    check_observed(data, data.observed, training=True)
    data = MultiView(
        data.views, sample_ids=data.sample_ids, observed={"b": [1, 1, 0, 1, 1, 0, 1, 1]}
    )
    for training in (True, False):
        with pytest.raises(DataError, match="Sample 'p2', and 1 more, lacks every view"):
            check_observed(data, data.observed, training=training)
    data = MultiView({"a": sound(), "b": sound()}, observed={"b": np.zeros(8)})
    with pytest.raises(DataError, match="No sample has view 'b'"):
        check_observed(data, data.observed, training=True)
    check_observed(data, data.observed, training=False)
