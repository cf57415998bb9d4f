"""Checking and parsing of the parameters of methods, from the type hints of their constructors."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from dwcl.errors import SettingError, nearest

Count: TypeAlias = Annotated[int, Field(ge=1)]
CountOrNone: TypeAlias = Annotated[int, Field(ge=0)]
AtLeastTwo: TypeAlias = Annotated[int, Field(ge=2)]
Positive: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share: TypeAlias = Annotated[float, Field(ge=0, lt=1)]
Widths: TypeAlias = tuple[Count, ...]


@functools.cache
def settings_model(method: type) -> type[BaseModel]:
    """Make the pydantic model of a method's constructor: one field per parameter."""
    hints = get_type_hints(method.__init__, include_extras=True)  # type: ignore[misc]
    fields: dict[str, Any] = {
        name: (hints[name], parameter.default)
        for name, parameter in inspect.signature(method).parameters.items()
    }
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    return create_model(f"{method.__name__}Settings", __config__=config, **fields)


def check_settings(
    method: type, values: Mapping[str, Any], *, strict: bool = True
) -> dict[str, Any]:
    """Check parameter values and return them in their proper types.

    NumPy scalars count as the plain numbers that they stand for, and lists as tuples. Beyond that
    a value must be of the right type, unless `strict` is False: then a text may stand for a number.
    """
    known = settings_model(method).model_fields
    for name in values:
        if name not in known:
            raise SettingError(f"{method.__name__} has no setting '{name}'. {nearest(name, known)}")
    plain = {name: _as_given(value) for name, value in values.items()}
    try:
        checked = settings_model(method).model_validate(plain, strict=strict)
    except ValidationError as failure:
        raise SettingError(_worded(failure, plain)) from None
    return {name: getattr(checked, name) for name in plain}


def parse_settings(method: type, assignments: Iterable[str]) -> dict[str, Any]:
    """Parse ``name=value`` texts, as they come from a command line or a recipe.

    A value is read as JSON where it is JSON, as a list where it has commas, else as a text; what
    it may be is decided by the parameter's type.
    """
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if not separator:
            raise SettingError(
                f"'{assignment}' is not a setting; the form is name=value, "
                "for example temperature=0.5."
            )
        name, value = name.strip(), _parse(text.strip())
        values[name] = [value] if type(value) is int and _takes_several(method, name) else value
    return check_settings(method, values, strict=False)


def _as_given(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return tuple(value) if isinstance(value, list) else value


def _takes_several(method: type, name: str) -> bool:
    """Tell whether a setting is a list of numbers, so that a single one stands for a list of it."""
    field = settings_model(method).model_fields.get(name)
    kinds = () if field is None else (field.annotation, *get_args(field.annotation))
    return any(get_origin(kind) is tuple for kind in kinds)


def plain_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Give settings as JSON has them: NumPy scalars as numbers, a function by its name."""
    plain: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, np.generic):
            plain[name] = value.item()
        elif callable(value):
            function = f"{value.__module__}.{getattr(value, '__qualname__', value)}"
            plain[name] = {"<function>": function}
        else:
            plain[name] = list(value) if isinstance(value, tuple) else value
    return plain


def _parse(text: str) -> Any:
    if text in ("None", "none"):
        return None if text == "None" else text
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except json.JSONDecodeError:
        if "," not in text:
            return text
        return [_parse(part.strip()) for part in text.rstrip(",").split(",")]


def _worded(failure: ValidationError, values: Mapping[str, Any]) -> str:
    """One sentence for the parameters that are wrong, in place of pydantic's report."""
    reasons: dict[str, list[str]] = {}
    for error in failure.errors():
        name = str(error["loc"][0])
        reason = error["msg"][:1].lower() + error["msg"][1:]
        reasons.setdefault(name, [])
        if reason not in reasons[name]:
            reasons[name].append(reason)
    return " ".join(
        f"{name} is {values[name]!r}; {' or '.join(listed)}." for name, listed in reasons.items()
    )
