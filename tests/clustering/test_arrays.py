"""What the files of the room share."""

from __future__ import annotations

import torch

from dwcl.clustering import _arrays
from dwcl.clustering._arrays import as_points, block_size, exact_products, row_blocks


def test_blocks_cover_all_rows_once() -> None:
    assert list(row_blocks(7, 3)) == [slice(0, 3), slice(3, 6), slice(6, 7)]
    assert block_size(10**9, None) == 256
    assert block_size(100, None) * 100 <= 2**17
    assert block_size(100, 5) == 5


def test_points_in_a_usable_type_are_not_copied() -> None:
    x = torch.zeros(3, 2)
    assert as_points(x).data_ptr() == x.data_ptr()


def test_settings_of_the_caller_are_suspended_and_restored() -> None:
    torch.set_float32_matmul_precision("medium")
    try:
        a = torch.ones(2, 2)
        with torch.autocast("cpu", dtype=torch.bfloat16), exact_products(a.device):
            assert (a @ a).dtype == torch.float32
            products = _arrays._product_settings(a.device)
            assert products is None or products.fp32_precision == "ieee"
        assert torch.get_float32_matmul_precision() == "medium"
        assert products is None or products.fp32_precision == "bf16"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_versions_of_torch_with_one_setting_for_all_devices(monkeypatch) -> None:
    monkeypatch.setattr(_arrays, "_product_settings", lambda device: None)
    torch.set_float32_matmul_precision("high")
    try:
        with exact_products(torch.device("cpu")):
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
