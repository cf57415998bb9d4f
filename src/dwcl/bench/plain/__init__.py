"""Methods in plain eager PyTorch, for the engine to be measured against.

``dwcl bench methods`` answers whether a method learns at least as fast under the engine as it would
as plain code. For that a method has one file here, which is found by itself; it states a
:class:`PlainVersion` at the top level, under any name:

>>> PLAIN = PlainVersion(
...     method="sem",
...     phases={"contrast-1": make_epoch},
...     schedule=lambda epochs: {"pretrain_epochs": 0, "iterations": 1, "epochs": epochs},
... )  # doctest: +SKIP

``method``
    The method's name.
``phases``
    For one phase of the method or for several, by their names in the history, a function that makes
    the plain epoch of the phase: ``make_epoch(model, networks, views)`` returns a function without
    arguments. Each call of that learns from all samples once and returns the mean loss over them.

    * ``model`` is an unfitted estimator with the settings of the measurement (``batch_size``,
      ``learning_rate``, …). What lies outside of the epochs, such as weights or pseudo-labels that
      are taken anew between phases, may be any values of the right form: no time depends on them.
      What the method computes anew for each epoch (``refresh``) is in the engine's time, and so
      belongs into the plain epoch too.
    * ``networks`` are those of the method with the start values of a fit with the seed 0, on the
      processor, and with all layers as plain modules (:func:`in_plain_layers`).
    * ``views`` are the scaled samples, a tensor (n × d_v) each.
``schedule``
    From a number of epochs to the settings under which a fit runs each of the phases for just so
    many epochs, and little else.

A plain epoch is what one writes first, and writes well: loops over views and pairs, the loss as its
formula has it, Adam as it comes; but no work that nobody needs, since a slow reference proves
nothing. A test beside it (``tests/bench/plain``) shows that it computes what the engine computes;
the losses that :func:`dwcl.bench.methods.take_turns` gives of both can serve for that.
"""

from __future__ import annotations

import copy
import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from torch import Tensor, nn

from dwcl.errors import SettingError, nearest
from dwcl.nn import Perceptron

Epoch: TypeAlias = Callable[[], float]
"""Learns from all samples once, and returns the mean loss over them."""

MakeEpoch: TypeAlias = Callable[[Any, nn.Module, Sequence[Tensor]], Epoch]
"""From model, networks and views to the plain epoch."""


@dataclass(frozen=True)
class PlainVersion:
    """A method in plain eager PyTorch, as far as it is measured.

    Attributes
    ----------
    method : str
        Name of the method.
    phases : mapping of str to callable
        By the name of a phase, what makes its plain epoch.
    schedule : callable
        From a number of epochs to the settings under which each of the phases has so many.
    """

    method: str
    phases: Mapping[str, MakeEpoch]
    schedule: Callable[[int], dict[str, Any]]


@functools.cache
def plain_versions() -> Mapping[str, PlainVersion]:
    """Return all plain versions by method: a file put into this package is found, with no list."""
    package = importlib.import_module("dwcl.bench.plain")
    found: dict[str, PlainVersion] = {}
    for module_info in pkgutil.iter_modules(package.__path__, "dwcl.bench.plain."):
        module = importlib.import_module(module_info.name)
        for member in vars(module).values():
            if isinstance(member, PlainVersion):
                found[member.method] = member
    return MappingProxyType(dict(sorted(found.items())))


def get_plain(method: str) -> PlainVersion:
    """Return the plain version of a method."""
    if method not in plain_versions():
        raise SettingError(
            f"There is no plain version of a method '{method}'. {nearest(method, plain_versions())}"
        )
    return plain_versions()[method]


def in_plain_layers(networks: nn.Module) -> nn.Module:
    """Copy networks, values and all, with every chain of layers as PyTorch alone has it."""
    copied = copy.deepcopy(networks)
    for module in list(copied.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, Perceptron):
                setattr(module, name, nn.Sequential(*child))
    return nn.Sequential(*copied) if isinstance(copied, Perceptron) else copied
