from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from dwcl.nn import perceptron, resolve_precision, set_precision
from dwcl.nn.precision import Perceptron, has_native_bf16

CPU = torch.device("cpu")


@pytest.fixture
def layers() -> Perceptron:
    return perceptron((40, 64, 16), torch.Generator().manual_seed(0))


@pytest.fixture
def x() -> Tensor:
    return torch.randn(32, 40, generator=torch.Generator().manual_seed(1))


def in_bf16(layers: Perceptron, x: Tensor) -> Tensor:
    """The same layers with every operand rounded by hand."""
    first, _, last = layers
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    half = torch.bfloat16
    hidden = nn.functional.linear(x.to(half), first.weight.to(half), first.bias.to(half)).relu()
    return nn.functional.linear(hidden, last.weight.to(half), last.bias.to(half)).float()


def exact(layers: Perceptron, x: Tensor) -> Tensor:
    return nn.Sequential(*layers)(x)


def test_bf16_holds_while_training_and_comes_out_as_fp32(layers: Perceptron, x: Tensor) -> None:
    set_precision(layers, "bf16")
    out = layers.train()(x)
    assert out.dtype == torch.float32
    assert torch.equal(out, in_bf16(layers, x))
    assert not torch.equal(out, exact(layers, x))
    torch.testing.assert_close(out, exact(layers, x), atol=0.02, rtol=0.05)


def test_gradients_and_weights_are_fp32(layers: Perceptron, x: Tensor) -> None:
    set_precision(layers, "bf16")
    layers.train()(x).square().mean().backward()
    rounded = [p.grad.clone() for p in layers.parameters() if p.grad is not None]
    layers.zero_grad()
    set_precision(layers, "fp32")
    layers(x).square().mean().backward()
    for p, coarse in zip(layers.parameters(), rounded, strict=True):
        assert p.dtype == torch.float32
        assert coarse.dtype == torch.float32
        assert p.grad is not None
        assert not torch.equal(p.grad, coarse)
        assert (p.grad - coarse).norm() < 0.1 * p.grad.norm()


def test_evaluation_is_exact_whatever_the_choice(layers: Perceptron, x: Tensor) -> None:
    set_precision(layers, "bf16")
    layers.eval()
    assert torch.equal(layers(x), exact(layers, x))


def test_fp32_is_exact_while_training(layers: Perceptron, x: Tensor) -> None:
    assert torch.equal(layers.train()(x), exact(layers, x))
    set_precision(layers, "bf16")
    set_precision(layers, "fp32")
    assert torch.equal(layers(x), exact(layers, x))


def test_no_autocast_is_left_on(layers: Perceptron, x: Tensor) -> None:
    set_precision(layers, "bf16")
    layers.train()(x)
    assert not torch.is_autocast_enabled("cpu")
    with pytest.raises(RuntimeError):
        layers(x[:, :3])
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("training", [True, False])
def test_the_callers_autocast_has_no_influence(
    training: bool, layers: Perceptron, x: Tensor
) -> None:
    expected = exact(layers, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(layers.train(training)(x), expected)
        assert torch.is_autocast_enabled("cpu")


def test_all_layers_of_some_networks_are_set(layers: Perceptron) -> None:
    other = perceptron((4, 3), torch.Generator().manual_seed(0))
    set_precision(nn.ModuleDict({"a": layers, "b": nn.ModuleList([other])}), "bf16")
    assert (layers.precision, other.precision) == ("bf16", "bf16")
    assert perceptron((4, 3), torch.Generator()).precision == "fp32"


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"avx512_bf16": True, "amx_bf16": False}, "bf16"),
        ({"avx512_bf16": False, "amx_bf16": True}, "bf16"),
        ({"avx512_bf16": False, "amx_bf16": False, "avx2": True}, "fp32"),
        ({}, "fp32"),
    ],
)
def test_auto_asks_the_processor(
    capabilities: dict[str, object], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert resolve_precision("auto", CPU) == expected
    assert resolve_precision("fp32", CPU) == "fp32"
    assert resolve_precision("bf16", CPU) == "bf16"


def test_auto_is_careful_where_pytorch_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert resolve_precision("auto", CPU) == "fp32"


@pytest.mark.parametrize("native", [True, False])
def test_auto_asks_the_gpu_for_native_support(
    native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def supported(*, including_emulation: bool = True) -> bool:
        return including_emulation or native

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    assert has_native_bf16(torch.device("cuda")) is native


def test_other_devices_stay_with_fp32() -> None:
    assert resolve_precision("auto", torch.device("mps")) == "fp32"
