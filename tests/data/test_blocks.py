"""Passes over views by blocks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from dwcl.data import blocks
from dwcl.data.multiview import MultiView


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ENTRIES", 10)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.int64, bool])
@pytest.mark.parametrize("sparse", [False, True])
def test_blocks_together_are_the_view(dtype: type, sparse: bool) -> None:
    dense = (np.arange(7 * 3).reshape(7, 3) % 5).astype(dtype)
    if sparse and dtype is np.float16:
        pytest.skip("scipy has no sparse arrays of half precision")
    view = sp.csr_array(dense) if sparse else dense
    parts = list(blocks.row_blocks(view))
    assert [start for start, _ in parts] == [0, 3, 6]
    assert all(p.dtype == np.float64 and p.flags.c_contiguous for _, p in parts)
    np.testing.assert_array_equal(np.vstack([p for _, p in parts]), dense.astype(np.float64))


def test_a_row_wider_than_a_block_is_one_block() -> None:
    assert blocks.rows_of_block(blocks.BLOCK_ENTRIES * 3) == 1
    assert blocks.rows_of_block(blocks.BLOCK_ENTRIES // 4) == 4


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("first", "last", "starts"), [(2, 9, [2, 5, 8]), (5, 6, [5]), (4, 99, [4, 7])]
)
def test_a_part_of_the_rows_can_be_gone_through(first: int, last: int, starts: list[int]) -> None:
    x = np.arange(30.0).reshape(10, 3)
    parts = list(blocks.row_blocks(x, first, last))
    assert [start for start, _ in parts] == starts
    np.testing.assert_array_equal(np.vstack([p for _, p in parts]), x[first:last])


def test_place_prefers_names() -> None:
    data = MultiView(
        {"a": np.eye(2), "b": np.eye(2)}, sample_ids=["p", "q"], columns={"a": ("age", "size")}
    )
    assert blocks.place(data, "a", 1, 0) == "column 'age' of sample 'q'"
    assert blocks.place(data, "b", 0, 1) == "column 1 (counted from 0) of sample 'p'"
