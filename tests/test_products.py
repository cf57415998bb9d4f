"""Matrix products by the fastest library give what PyTorch gives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dwcl import products
from dwcl.products import product

SHAPES = [(128, 500, 300), (512, 130, 256), (10, 4000, 128), (300, 128, 500), (1, 1, 1), (0, 3, 2)]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Take every processor for one that oneDNN serves better, and list what it is asked for."""
    asked: list[tuple[int, ...]] = []
    ours = torch.ops.mkldnn._linear_pointwise

    def watched(a: Tensor, b: Tensor, *rest: object) -> Tensor:
        asked.append((*a.shape, len(b)))
        result: Tensor = ours(a, b, *rest)
        return result

    if not torch.backends.mkldnn.is_available():
        pytest.skip("this PyTorch has no oneDNN")
    monkeypatch.setattr(products, "_onednn_is_faster", lambda: True)
    monkeypatch.setattr(products, "_linear", lambda: watched)
    return asked


def operands(shape: tuple[int, int, int], seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    m, k, n = shape
    return (
        torch.randn(m, k, generator=generator),
        torch.randn(k, n, generator=generator),
        torch.randn(n, generator=generator),
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("turned", ["neither", "left", "right"])
def test_a_product_is_that_of_double_precision(
    shape: tuple[int, int, int], seed: int, with_bias: bool, turned: str, calls: list[object]
) -> None:
    a, b, bias = operands(shape, seed)
    expected = a.double() @ b.double() + (bias.double() if with_bias else 0)
    a = a.T.contiguous().T if turned == "left" else a
    b = b.T.contiguous().T if turned == "right" else b
    with torch.no_grad():
        found = product(a, b, bias if with_bias else None)
    tolerance = 1e-6 * shape[1] + 1e-6
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=tolerance)


def test_large_products_go_to_onednn_and_small_ones_do_not(calls: list[tuple[int, ...]]) -> None:
    with torch.no_grad():
        for shape in ((256, 256, 256), (16, 16, 16)):
            product(*operands(shape, 0))
    assert calls == [(256, 256, 256)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_are_left_to_pytorch(dtype: torch.dtype, calls: list[object]) -> None:
    a, b, _ = (x.to(dtype) for x in operands((256, 256, 256), 0))
    assert torch.equal(product(a, b), a @ b)
    assert not calls


def test_gradients_are_not_lost(calls: list[object]) -> None:
    a, b, bias = (x.requires_grad_() for x in operands((256, 256, 256), 0))
    product(a, b, bias).sum().backward()
    assert a.grad is not None
    assert bias.grad is not None
    torch.testing.assert_close(a.grad, b.detach().sum(1).expand(256, 256))
    assert not calls


@pytest.mark.parametrize("shape", [(256, 256, 256), (4, 4, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_place_is_filled(
    shape: tuple[int, int, int], dtype: torch.dtype, calls: list[object]
) -> None:
    a, b, bias = operands(shape, 0)
    place = torch.full((shape[0], shape[2]), torch.nan, dtype=dtype)
    with torch.no_grad():
        assert product(a, b, bias, out=place) is place
        torch.testing.assert_close(place, product(a, b, bias).to(dtype), rtol=1e-6, atol=1e-5)


def test_the_same_product_has_the_same_bits() -> None:
    a, b, bias = operands((300, 128, 500), 0)
    with torch.no_grad():
        first = product(a, b, bias)
        assert all(torch.equal(first, product(a, b, bias)) for _ in range(5))
