"""Multi-view clustering: several tables describe the same samples, dwcl finds the groups.

>>> import dwcl
>>> data = dwcl.read("Scene_15.mat")                              # doctest: +SKIP
>>> labels = dwcl.DWCL(n_clusters=15).fit_predict(data)           # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dwcl.data.digits import load_digits
    from dwcl.data.fetch import load as load_dataset
    from dwcl.data.multiview import MultiView, as_multiview
    from dwcl.data.readers import read
    from dwcl.data.synthetic import make_multiview
    from dwcl.evaluate.probe import linear_probe
    from dwcl.evaluate.scores import score
    from dwcl.experiments.recipes import recipe
    from dwcl.methods.dwcl import DWCL
    from dwcl.storage.model import load_model, save_model
    from dwcl.training.checkpoint import Checkpoints

__version__ = "0.1.0"

__all__ = [
    "DWCL",
    "Checkpoints",
    "MultiView",
    "__version__",
    "as_multiview",
    "linear_probe",
    "load_dataset",
    "load_digits",
    "load_model",
    "make_multiview",
    "read",
    "recipe",
    "save_model",
    "score",
]

_HOMES = {
    "Checkpoints": "dwcl.training.checkpoint",
    "DWCL": "dwcl.methods.dwcl",
    "MultiView": "dwcl.data.multiview",
    "as_multiview": "dwcl.data.multiview",
    "linear_probe": "dwcl.evaluate.probe",
    "load_dataset": "dwcl.data.fetch",
    "load_digits": "dwcl.data.digits",
    "load_model": "dwcl.storage.model",
    "make_multiview": "dwcl.data.synthetic",
    "read": "dwcl.data.readers",
    "recipe": "dwcl.experiments.recipes",
    "save_model": "dwcl.storage.model",
    "score": "dwcl.evaluate.scores",
}
_OTHER_NAMES = {"load_dataset": "load"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: ``import dwcl`` itself loads no library."""
    if name not in _HOMES:
        raise AttributeError(f"module 'dwcl' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOMES[name]), _OTHER_NAMES.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
