"""Finding the methods: every class in this package that states a ``method_name``."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dwcl.errors import SettingError, nearest
from dwcl.methods.base import DeepMultiViewClusterer


@functools.cache
def methods() -> Mapping[str, type[DeepMultiViewClusterer]]:
    """Return all methods by their names: a file put into this package is found, with no list."""
    package = importlib.import_module("dwcl.methods")
    found: dict[str, type[DeepMultiViewClusterer]] = {}
    for module_info in pkgutil.iter_modules(package.__path__, "dwcl.methods."):
        module = importlib.import_module(module_info.name)
        for member in vars(module).values():
            if _is_method(member) and member.__module__ == module.__name__:
                found[member.method_name] = member
    return MappingProxyType(dict(sorted(found.items())))


def _is_method(member: Any) -> bool:
    return (
        isinstance(member, type)
        and issubclass(member, DeepMultiViewClusterer)
        and not inspect.isabstract(member)
    )


def get_method(name: str) -> type[DeepMultiViewClusterer]:
    """Return the method of that name."""
    if name not in methods():
        raise SettingError(f"There is no method '{name}'. {nearest(name, methods())}")
    return methods()[name]
