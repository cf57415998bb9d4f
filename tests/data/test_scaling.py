"""Scaling: hand-computed values, slow references, exactness and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.preprocessing import StandardScaler

from dwcl.data import blocks
from dwcl.data.multiview import MultiView
from dwcl.data.profiles import profile
from dwcl.data.scaling import CHOICES, KINDS, Scaling, decide
from dwcl.errors import DataError, ModelError, SettingError

TABLE = np.array([[0.0, -1.0, 5.0], [1.0, 0.0, 5.0], [3.0, 1.0, 5.0], [4.0, 0.0, 5.0]])


def scale(x: object, kind: str) -> np.ndarray:
    data = MultiView({"a": x})
    (scaled,) = Scaling.fit(data, kind).transform(data)
    return scaled


def tables(max_rows: int = 12) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, max_rows), st.integers(1, 9)),
        elements=st.floats(-1e15, 1e15),
    )


# -- values ---------------------------------------------------------------------------------------


def test_minmax_by_hand() -> None:
    expected = [[0, 0, 0], [0.25, 0.5, 0], [0.75, 1, 0], [1, 0.5, 0]]
    np.testing.assert_array_equal(scale(TABLE, "minmax"), np.array(expected, np.float32))


def test_standard_by_hand() -> None:
    expected = np.array([[-2, -1, 0], [-1, 0, 0], [1, 1, 0], [2, 0, 0]])
    expected = expected / [np.sqrt(2.5), np.sqrt(0.5), 1]
    np.testing.assert_allclose(scale(TABLE, "standard"), expected, rtol=1e-7)


def test_row_l2_by_hand() -> None:
    x = np.array([[3.0, 4.0], [0.0, 0.0], [-1.0, 1.0]])
    expected = np.array([[0.6, 0.8], [0, 0], [-1 / np.sqrt(2), 1 / np.sqrt(2)]]) * np.sqrt(2)
    np.testing.assert_allclose(scale(x, "row-l2"), expected, rtol=1e-7)


def test_none_gives_the_values_in_a_new_array() -> None:
    x = np.array([[1.5, -2.0]], dtype=np.float32)
    scaled = scale(x, "none")
    np.testing.assert_array_equal(scaled, x)
    assert not np.shares_memory(scaled, x)


@pytest.mark.parametrize("seed", range(3))
def test_standard_agrees_with_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(rng.normal(size=30), rng.uniform(0.1, 9, size=30), size=(200, 30))
    np.testing.assert_allclose(
        scale(x, "standard"), StandardScaler().fit_transform(x), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("kind", KINDS)
def test_result_does_not_depend_on_the_size_of_blocks(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(1).normal(size=(50, 7))
    whole = scale(x, kind)
    monkeypatch.setattr(blocks, "BLOCK_ENTRIES", 20)
    np.testing.assert_allclose(scale(x, kind), whole, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", ["minmax", "standard"])
def test_large_offset_keeps_the_small_noise(kind: str) -> None:
    noise = np.random.default_rng(0).normal(size=(300, 4))
    far = scale(noise * 1e-3 + 1e6, kind)
    np.testing.assert_allclose(far, scale(noise, kind), atol=1e-5)


@pytest.mark.parametrize("factor", [1e-300, 1e-160, 1e15])
@pytest.mark.parametrize("kind", ["minmax", "standard", "row-l2"])
def test_unit_of_measurement_does_not_matter(kind: str, factor: float) -> None:
    x = np.random.default_rng(0).normal(size=(20, 4))
    np.testing.assert_allclose(scale(x * factor, kind), scale(x, kind), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["minmax", "standard"])
@pytest.mark.parametrize("constant", [0.0, 0.1, -1e15, 5e-324])
def test_constant_columns_become_zero_for_every_sample(kind: str, constant: float) -> None:
    fitted = MultiView({"a": np.column_stack([np.full(7, constant), np.arange(7.0)])})
    scaling = Scaling.fit(fitted, kind)
    assert (scaling.transform(fitted)[0][:, 0] == 0).all()
    other = MultiView({"a": np.array([[12.0, 3.0]])})
    assert scaling.transform(other)[0][0, 0] == 0


@pytest.mark.parametrize("kind", ["minmax", "standard"])
def test_rounding_of_a_constant_is_not_blown_up(kind: str) -> None:
    almost = np.array([0.1 + 0.2, 0.3, 0.3, 0.1 + 0.2])
    assert almost[0] != almost[1]
    assert (scale(almost[:, None], kind) == 0).all()


def test_values_outside_the_fitted_range_are_not_clipped() -> None:
    scaling = Scaling.fit(MultiView({"a": [[0.0], [2.0]]}))
    assert scaling.transform(MultiView({"a": [[-1.0], [6.0]]}))[0].tolist() == [[-0.5], [3.0]]


@given(tables())
def test_minmax_fills_the_unit_interval(x: np.ndarray) -> None:
    scaled = scale(x, "minmax")
    assert scaled.min() >= 0
    assert scaled.max() <= 1
    reached = scaled.max(axis=0)
    assert ((reached == 1) | (reached == 0)).all()


@given(tables())
def test_rows_have_mean_square_one_or_zero(x: np.ndarray) -> None:
    mean_square = np.square(scale(x, "row-l2").astype(np.float64)).mean(axis=1)
    np.testing.assert_allclose(mean_square, np.any(x != 0, axis=1), rtol=1e-6)


# -- exactness and types --------------------------------------------------------------------------


@given(tables(), st.sampled_from(KINDS), st.data())
def test_a_part_is_scaled_exactly_as_in_the_whole(
    x: np.ndarray, kind: str, draw: st.DataObject
) -> None:
    data = MultiView({"a": x})
    rows = draw.draw(st.lists(st.integers(0, len(x) - 1), min_size=1, unique=True))
    scaling = Scaling.fit(data, kind)
    np.testing.assert_array_equal(
        scaling.transform(data.take(rows))[0], scaling.transform(data)[0][rows]
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [1, 63, 1000])
def test_parts_over_the_edges_of_blocks_are_exact(kind: str, width: int) -> None:
    rng = np.random.default_rng(0)
    data = MultiView({"a": rng.normal(size=(400, width))})
    scaling = Scaling.fit(data, kind)
    (whole,) = scaling.transform(data)
    rows = rng.permutation(400)[:150]
    np.testing.assert_array_equal(scaling.transform(data.take(rows))[0], whole[rows])
    np.testing.assert_array_equal(scaling.transform(data.take([7]))[0], whole[[7]])


@pytest.mark.parametrize("kind", CHOICES)
def test_sparse_and_dense_give_the_same_bits(kind: str) -> None:
    x = np.random.default_rng(0).poisson(0.1, size=(60, 40)).astype(np.float64)
    np.testing.assert_array_equal(scale(sp.csr_array(x), kind), scale(x, kind))
    np.testing.assert_array_equal(scale(sp.coo_matrix(x), kind), scale(x, kind))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.float16, np.float32, bool])
@pytest.mark.parametrize("kind", CHOICES)
def test_any_real_type_gives_contiguous_single_precision(kind: str, dtype: type) -> None:
    x = (np.arange(12).reshape(4, 3) * 21 % 250).astype(dtype)
    scaled = scale(np.asfortranarray(x), kind)
    assert scaled.dtype == np.float32
    assert scaled.flags.c_contiguous
    assert scaled.flags.writeable
    np.testing.assert_array_equal(scaled, scale(x.astype(np.float64), kind))


def test_given_arrays_are_left_alone() -> None:
    x = TABLE.copy()
    x.flags.writeable = False
    scale(x, "standard")
    np.testing.assert_array_equal(x, TABLE)


# -- auto -----------------------------------------------------------------------------------------


def test_auto_by_the_share_of_zeros() -> None:
    x = np.zeros((4, 4))
    x[0] = 1.0  # exactly three quarters are zero
    assert decide(profile(x)) == ("standard", "no negative values, 75 % zeros")
    x[0, 0] = 0.0
    assert decide(profile(x)) == ("row-l2", "no negative values, 81 % zeros")
    x[0, 1] = -1.0
    assert decide(profile(x)) == ("standard", "it has negative values")


def test_auto_decides_by_view_and_says_so() -> None:
    rng = np.random.default_rng(0)
    data = MultiView(
        {"words": sp.csr_array(rng.poisson(0.05, (30, 50))), "genes": rng.normal(size=(30, 5))}
    )
    scaling = Scaling.fit(data, "auto")
    assert dict(scaling.kinds) == {"words": "row-l2", "genes": "standard"}
    assert scaling.notes == (
        "View 'words': scaling row-l2 (no negative values, 95 % zeros).",
        "View 'genes': scaling standard (it has negative values).",
    )
    assert Scaling.fit(data, "standard").notes == ()


def test_auto_tells_word_counts_from_image_descriptors(shared_data: Path) -> None:
    kinds = {}
    for file, cell in {"BBCSport": "X", "MSRC_v1": "fea"}.items():
        views = scipy.io.loadmat(shared_data / f"{file}.mat")[cell].ravel()
        tables = [view.T if file == "BBCSport" else view for view in views]
        data = MultiView({f"view{i}": table for i, table in enumerate(tables, 1)})
        kinds[file] = set(Scaling.fit(data, "auto").kinds.values())
    assert kinds == {"BBCSport": {"row-l2"}, "MSRC_v1": {"standard"}}


# -- which kind for which view --------------------------------------------------------------------


def test_kinds_by_name_with_minmax_for_the_others() -> None:
    data = MultiView({"a": TABLE, "b": TABLE, "c": TABLE})
    scaling = Scaling.fit(data, {"c": "none", "a": "standard"})
    assert list(scaling.kinds.items()) == [("a", "standard"), ("b", "minmax"), ("c", "none")]
    a, b, c = scaling.transform(data)
    np.testing.assert_array_equal(a, scale(TABLE, "standard"))
    np.testing.assert_array_equal(b, scale(TABLE, "minmax"))
    np.testing.assert_array_equal(c, TABLE.astype(np.float32))


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("min-max", r"no scaling 'min-max'. Did you mean 'minmax'\?"),
        ({"text": "rowl2"}, r"no scaling 'rowl2'. Did you mean 'row-l2'\?"),
        ({"txt": "none"}, r"names a view 'txt'.*Did you mean 'text'\?"),
        (None, "scaling is None; one of minmax, standard, row-l2, none, auto"),
    ],
)
def test_unknown_kinds_and_views(spec: object, match: str) -> None:
    with pytest.raises(SettingError, match=match):
        Scaling.fit(MultiView({"text": TABLE}), spec)  # type: ignore[arg-type]


# -- application to other samples -----------------------------------------------------------------


def test_views_are_matched_by_name_in_the_fitted_order() -> None:
    a, b = TABLE, TABLE[:, :2] * 3
    scaling = Scaling.fit(MultiView({"a": a, "b": b}))
    straight = scaling.transform(MultiView({"a": a, "b": b}))
    swapped = scaling.transform(MultiView({"b": b, "a": a}))
    for one, other in zip(straight, swapped, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("views", "match"),
    [
        ({"a": TABLE}, "View 'b' is missing; views a came, but views a, b were fitted"),
        ({"a": TABLE, "b": TABLE, "bb": TABLE}, "View 'bb' was not fitted; views a, b were"),
        ({"a": TABLE, "b": TABLE[:, :2]}, "View 'b' has 2 features, but 3 were fitted"),
    ],
)
def test_other_views_are_refused(views: dict[str, np.ndarray], match: str) -> None:
    scaling = Scaling.fit(MultiView({"a": TABLE, "b": TABLE}))
    with pytest.raises(DataError, match=match):
        scaling.transform(MultiView(views))


@pytest.mark.parametrize("kind", ["minmax", "standard"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.7e308])
def test_unfit_values_are_refused_when_fitting(kind: str, value: float) -> None:
    x = np.array([[0.0, 1.0], [1.0, -1.7e308], [2.0, value]])
    with pytest.raises(DataError, match="View 'a' cannot be scaled: column 1"):
        Scaling.fit(MultiView({"a": x}), kind)


@pytest.mark.parametrize("kind", KINDS)
def test_no_infinity_leaves_the_scaling(kind: str) -> None:
    scaling = Scaling.fit(MultiView({"a": [[0.0, 0.0], [1e-30, 1.0]]}), kind)
    value = np.inf if kind == "row-l2" else 1e39
    data = MultiView({"a": [[0.0, 1.0], [value, 1.0]]}, sample_ids=["p", "q"])
    with pytest.raises(DataError, match=r"'a' has .* in column 0 .* of sample 'q'.*'" + kind):
        scaling.transform(data)


# -- storage --------------------------------------------------------------------------------------


def fitted() -> tuple[Scaling, MultiView]:
    rng = np.random.default_rng(5)
    data = MultiView({kind: rng.normal(3, 2, size=(40, 6)) for kind in KINDS})
    return Scaling.fit(data, {kind: kind for kind in KINDS}), data


def test_state_makes_the_same_scaling_again() -> None:
    scaling, data = fitted()
    state = scaling.state()
    assert set(state) == {f"{kind}/{part}" for kind in KINDS for part in ("offset", "factor")}
    assert all(array.dtype == np.float64 and array.shape == (6,) for array in state.values())
    again = Scaling.from_state(scaling.kinds, {**state, "encoder/weight": np.zeros((2, 2))})
    assert again.kinds == scaling.kinds
    assert again.widths == dict.fromkeys(KINDS, 6)
    for one, other in zip(again.transform(data), scaling.transform(data), strict=True):
        np.testing.assert_array_equal(one, other)


def test_scaling_cannot_be_changed_from_outside() -> None:
    scaling, data = fitted()
    before = scaling.transform(data)
    scaling.state()["minmax/offset"][:] = 99
    with pytest.raises(ValueError, match="read-only"):
        scaling.offsets["minmax"][:] = 99
    with pytest.raises(TypeError):
        scaling.kinds["minmax"] = "none"  # type: ignore[index]
    np.testing.assert_array_equal(scaling.transform(data)[0], before[0])


def test_damaged_state_is_refused() -> None:
    scaling, _ = fitted()
    state = scaling.state()
    with pytest.raises(ModelError, match="has no 'standard/factor'"):
        Scaling.from_state(
            scaling.kinds, {k: a for k, a in state.items() if k != "standard/factor"}
        )
    with pytest.raises(ModelError, match=r"view 'none' has an offset of shape \(6,\).*\(5,\)"):
        Scaling.from_state(scaling.kinds, {**state, "none/factor": np.ones(5)})
    with pytest.raises(ModelError, match=r"of kind 'auto'.* does not know"):
        Scaling.from_state({**scaling.kinds, "minmax": "auto"}, state)


# -- missing rows --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CHOICES)
@pytest.mark.parametrize("entries", [6, 10**6])
def test_missing_rows_stay_and_leave_the_others_as_they_are(
    kind: str, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ENTRIES", entries)
    x = np.random.default_rng(0).normal(size=(12, 3))
    gaps = np.array([0, 4, 11])
    rest = np.delete(x, gaps, axis=0)
    x[gaps] = np.nan
    scaled = scale(x, kind)
    assert np.isnan(scaled[gaps]).all()
    np.testing.assert_array_equal(np.delete(scaled, gaps, axis=0), scale(rest, kind))


def test_extreme_deviations_are_those_of_the_observed_rows() -> None:
    x = np.array([[1e-200], [np.nan], [3e-200], [np.nan]])
    np.testing.assert_allclose(scale(x, "standard")[[0, 2], 0], [-1, 1])


def test_the_rule_of_auto_counts_observed_rows() -> None:
    x = np.zeros((10, 4))
    x[:5, 0] = 1
    x[5:] = np.nan
    assert decide(profile(x)) == ("standard", "no negative values, 75 % zeros")


def test_what_single_precision_cannot_hold_is_found_beside_missing_rows() -> None:
    fitted = Scaling.fit(MultiView({"a": [[0.0, 0.0], [1e-30, 1.0]]}), "minmax")
    x = np.array([[np.nan, np.nan], [1e19, 0.5]])
    with pytest.raises(DataError, match=r"1e\+19 in column 0 .* of sample 1"):
        fitted.transform(MultiView({"a": x}))
