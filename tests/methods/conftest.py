"""What tests of every method share: tiny data, and settings for them chosen by their types.

They are for tests that are parametrised by ``method``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from dwcl import MultiView, make_multiview
from dwcl.methods import DeepMultiViewClusterer

Method = type[DeepMultiViewClusterer]

KNOWN = {"n_clusters": 3, "n_init": 2, "threads": 1, "random_state": 0, "precision": "fp32"}


@pytest.fixture
def tiny(method: Method) -> dict[str, Any]:
    """Settings under which a fit of the method takes a moment."""
    return dict(_tiny(method))


@pytest.fixture
def make(method: Method) -> Callable[..., DeepMultiViewClusterer]:
    """Make an estimator of the tiny settings, some of them changed."""
    return partial(method, **_tiny(method))


@pytest.fixture
def fitted(method: Method) -> DeepMultiViewClusterer:
    """A fit of 40 samples that several tests look at; none may change it."""
    return _fitted(method)


@pytest.fixture
def draw() -> Callable[..., MultiView]:
    """Draw so many samples, 40 unless said, in views of the given widths."""
    return _draw


@cache
def _draw(n: int = 40, widths: tuple[int, ...] = (5, 4)) -> MultiView:
    return make_multiview(n, 3, widths=widths, noise=0.1, random_state=0)


@cache
def _fitted(method: Method) -> DeepMultiViewClusterer:
    return method(**_tiny(method)).fit(_draw())


@cache
def _tiny(method: Method) -> dict[str, Any]:
    hints = get_type_hints(method.__init__, include_extras=True)
    chosen: dict[str, Any] = {}
    for name, parameter in inspect.signature(method).parameters.items():
        kinds = _alternatives(hints[name])
        if name in KNOWN:
            chosen[name] = KNOWN[name]
        elif int in kinds and parameter.default is not None:
            chosen[name] = _tiny_count(name, parameter.default)
        elif any(map(_is_widths, kinds)) and parameter.default:
            chosen[name] = (16,)
    return chosen


def _tiny_count(name: str, default: int) -> int:
    if "budget" in name:
        return default
    if "batch" in name:
        return 16
    if any(part in name for part in ("epoch", "iteration", "round")):
        return min(2, default)
    return min(8, default)  # a width, or a number of neighbours


def _alternatives(hint: Any) -> list[Any]:
    """List the types that a hint allows, stripped of their constraints."""
    allowed = get_args(hint) if type(None) in get_args(hint) else (hint,)
    return [_bare(kind) for kind in allowed]


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _is_widths(kind: Any) -> bool:
    """Tell whether a type is that of any number of whole numbers."""
    inner = get_args(kind)
    return get_origin(kind) is tuple and inner[1:] == (...,) and _bare(inner[0]) is int
