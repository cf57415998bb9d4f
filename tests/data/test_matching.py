"""Matching of rows by the ids of samples."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwcl.data.matching import match_samples
from dwcl.errors import DataError

IDS = st.lists(st.integers(0, 12), min_size=1, max_size=10, unique=True)


@given(tables=st.lists(IDS, min_size=1, max_size=4))
def test_matching_agrees_with_a_plain_search(tables):
    common = [key for key in tables[0] if all(key in ids for ids in tables)]
    named = {f"v{i}": np.array(ids) for i, ids in enumerate(tables)}
    if not common:
        with pytest.raises(DataError, match="No sample is in all of the views"):
            match_samples(named)
        return
    found = match_samples(named)
    assert found.ids.tolist() == common
    for name, ids in named.items():
        assert ids[found.rows[name]].tolist() == common
    assert bool(found.lines) == any(len(ids) > len(common) for ids in tables)


def test_what_is_left_out_is_said_and_logged(caplog):
    with caplog.at_level(logging.WARNING, logger="dwcl.data"):
        found = match_samples({"a": np.arange(9), "b": np.arange(5, 8), "c": np.arange(4, 8)})
    (line,) = found.lines
    assert line == (
        "samples: 3 are in all views; left out: 6 of view 'a' (0, 1, 2, …), 1 of view 'c' (4)"
    )
    assert caplog.messages == [line]


def test_nothing_is_said_when_nothing_is_left_out(caplog):
    assert match_samples({"a": np.array([1, 2]), "b": np.array([2, 1])}).lines == ()
    assert not caplog.records


def test_an_id_that_occurs_twice_is_refused():
    with pytest.raises(DataError, match="sample id 'x' occurs more than once in view 'b'"):
        match_samples({"a": np.array(["x"]), "b": np.array(["y", "x", "x"])})


def test_ids_of_different_types_do_not_match():
    with pytest.raises(DataError, match="'a' has 1, 2; 'b' has 1, 2, 3, …"):
        match_samples({"a": np.array([1, 2]), "b": np.array(["1", "2", "3", "4"])})
