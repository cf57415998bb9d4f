"""The arithmetic of the networks' matrix products while they learn.

``fp32`` multiplies in single precision. ``bf16`` rounds the operands of the layers to bfloat16,
which processors with native support multiply several times faster; the weights themselves, their
updates, the losses, and everything that is done with the finished networks stay in single
precision. ``auto`` takes bf16 where the processor or GPU has it natively.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from dwcl.nn.chain import StepMemory, run_chain
from dwcl.products import product

Precision: TypeAlias = Literal["fp32", "bf16"]
PrecisionChoice: TypeAlias = Literal["auto", "fp32", "bf16"]


class Perceptron(nn.Sequential):
    """Linear layers with ReLU between them, single precision in and out, with a choice inside.

    The choice holds in training mode alone: an embedding is always made in single precision.
    """

    precision: Precision = "fp32"

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__(*layers)
        self.memory = StepMemory()

    def forward(self, x: Tensor) -> Tensor:
        """Send a batch through the layers."""
        with _no_autocast(x.device):
            if not self.training:
                for layer in self:
                    if isinstance(layer, nn.Linear):
                        x = product(x, layer.weight.T, layer.bias)
                    else:
                        x = layer(x)
                return x
            linears = [layer for layer in self if isinstance(layer, nn.Linear)]
            own = linears[0].weight.dtype  # float64 networks, of a test, stay what they are
            dtype = torch.bfloat16 if self.precision == "bf16" else own
            return run_chain(x, linears, dtype, self.memory)


def _no_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Keep a caller's autocast out; a device without one, such as ``meta``, needs nothing."""
    if not torch.amp.is_autocast_available(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def set_precision(networks: nn.Module, precision: Precision) -> None:
    """Choose the arithmetic of all layers of some networks."""
    for module in networks.modules():
        if isinstance(module, Perceptron):
            module.precision = precision


def resolve_precision(choice: PrecisionChoice, device: torch.device) -> Precision:
    """Decide what ``auto`` means on a device; other choices stay as they are."""
    if choice != "auto":
        return choice
    return "bf16" if has_native_bf16(device) else "fp32"


def has_native_bf16(device: torch.device) -> bool:
    """Tell whether a device multiplies bfloat16 numbers by instructions of its own."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type != "cpu":
        return False
    # Older versions of PyTorch do not tell; bf16 can then still be asked for by name.
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
