"""One pass over a view: against NumPy on the whole of it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from dwcl.data import blocks
from dwcl.data.multiview import MultiView
from dwcl.data.profiles import profile, profile_views


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("entries", [4, 10, 50, 10**6])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_figures_are_those_of_numpy(
    monkeypatch: pytest.MonkeyPatch, seed: int, entries: int, form
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ENTRIES", entries)
    x = np.random.default_rng(seed).normal(3, [0.1, 1, 10, 100], size=(23, 4))
    x[np.abs(x) < 1] = 0
    x[[4, 22]] = 0
    found = profile(form(x))
    np.testing.assert_array_equal(found.low, x.min(axis=0))
    np.testing.assert_array_equal(found.high, x.max(axis=0))
    np.testing.assert_allclose(found.mean, x.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.deviation, x.std(axis=0), rtol=1e-12)
    assert found.zeros == np.count_nonzero(x == 0)
    assert found.empty_rows.tolist() == [4, 22]


def test_by_hand() -> None:
    found = profile(np.array([[0, 2], [0, 0], [3, 4]], dtype=np.uint8))
    assert found.low.tolist() == [0, 0]
    assert found.high.tolist() == [3, 4]
    assert found.mean.tolist() == [1, 2]
    np.testing.assert_allclose(found.deviation, np.sqrt([2, 8 / 3]))
    assert found.zeros == 3
    assert found.empty_rows.tolist() == [1]


def test_a_large_offset_costs_no_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ENTRIES", 16)
    noise = np.random.default_rng(0).integers(0, 8, size=(500, 2)).astype(float)
    found = profile(noise + 2.0**40)
    np.testing.assert_allclose(found.deviation, noise.std(axis=0), rtol=1e-9)


def test_a_value_that_is_no_number_shows_in_its_column_alone() -> None:
    x = np.random.default_rng(0).normal(size=(23, 4))
    x[11, 2] = np.nan
    x[5, 1] = np.inf
    found = profile(x)
    assert np.isnan(found.low).tolist() == [False, False, True, False]
    assert np.isnan(found.high).tolist() == [False, False, True, False]
    assert np.isfinite(found.deviation).tolist() == [True, False, False, True]


def test_every_view_is_looked_at() -> None:
    data = MultiView({"a": np.eye(3), "b": np.ones((3, 2))})
    found = profile_views(data)
    assert list(found) == ["a", "b"]
    assert found["a"].zeros == 6
    assert found["b"].deviation.tolist() == [0, 0]


@pytest.mark.parametrize("entries", [4, 10, 10**6])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_missing_rows_have_no_say(monkeypatch: pytest.MonkeyPatch, entries: int, form) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ENTRIES", entries)
    x = np.random.default_rng(0).normal(3, [0.1, 1, 10, 100], size=(23, 4))
    x[[7, 20]] = 0
    gaps = [0, 1, 2, 10, 22]
    x[gaps] = np.nan
    rest = np.delete(x, gaps, axis=0)
    found = profile(form(x))
    np.testing.assert_array_equal(found.low, rest.min(axis=0))
    np.testing.assert_array_equal(found.high, rest.max(axis=0))
    np.testing.assert_allclose(found.mean, rest.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.deviation, rest.std(axis=0), rtol=1e-12)
    assert (found.zeros, found.empty_rows.tolist()) == (8, [7, 20])
    assert np.flatnonzero(~found.observed).tolist() == gaps
    assert found.n_observed == 18


def test_a_view_that_nobody_has_can_be_looked_at() -> None:
    found = profile(np.full((3, 2), np.nan))
    assert found.n_observed == 0
    assert np.isinf(found.low).all()
