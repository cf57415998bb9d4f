"""Where a fit has its samples from, and on which device."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from dwcl.data.multiview import MultiView
from dwcl.data.scaling import Scaling
from dwcl.errors import SettingError
from dwcl.training.batches import InMemory, Source, Streamed
from dwcl.training.memory import MemoryPlan


def make_source(
    data: MultiView, scaling: Scaling, plan: MemoryPlan, device: torch.device
) -> Source:
    """Make the source of the scaled data: in memory, or read as it is needed."""
    if not plan.streamed:
        arrays = scaling.transform(data)
        return InMemory([torch.from_numpy(array).to(device) for array in arrays])

    def fill(name: str, start: int, block: Tensor) -> None:
        scaling.transform_rows(data, name, start, block.numpy())

    return Streamed(
        [partial(fill, name) for name in data.names],
        data.n_samples,
        data.widths,
        window_bytes=plan.window,
        device=device,
    )


def pick_device(device: str) -> torch.device:
    """Resolve ``auto`` to a GPU where there is one, else the CPU."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise SettingError(
            f"device is '{device}', but PyTorch sees no such GPU; use device='auto' or 'cpu'."
        )
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, NotImplementedError, AssertionError) as failure:
        raise SettingError(
            f"device is '{device}', which PyTorch cannot use here; 'auto', 'cpu' or the name of a "
            "GPU, such as 'cuda' or 'cuda:0', is expected."
        ) from failure
    return chosen
