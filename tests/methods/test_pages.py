"""The docstring of every method is its page in the documentation, and is whole."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re

import pytest

from dwcl.methods import DeepMultiViewClusterer, methods

Method = type[DeepMultiViewClusterer]

pytestmark = pytest.mark.parametrize("method", methods().values(), ids=list(methods()))


def sections(text: str | None) -> dict[str, str]:
    """Split a docstring at its underlined headings; what comes first is under no name."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", inspect.cleandoc(text or ""), flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(section: str) -> set[str]:
    """Collect the names that a section of parameters or attributes describes."""
    heads = re.findall(r"^(\w[\w, ]*) : ", section, flags=re.MULTILINE)
    return {name for head in heads for name in re.split(r",\s*", head)}


def test_the_docstring_is_a_page(method: Method) -> None:
    found = sections(method.__doc__)
    first, blank, *_ = found[""].splitlines()
    assert first.endswith(".")
    assert not blank
    assert ".. math::" in found[""]
    assert {"Parameters", "Attributes", "Examples"} <= set(found)
    # Whoever published a method is named; a yardstick is called one.
    assert "References" in found or "yardstick" in first


def test_every_parameter_is_described_with_its_default(method: Method) -> None:
    text = sections(method.__doc__)["Parameters"]
    told: dict[str, object] = {}
    for head, words in re.findall(r"^(\w[\w, ]*) : .*?default=(.*)$", text, flags=re.MULTILINE):
        names, value = re.split(r",\s*", head), ast.literal_eval(words)
        one_each = len(names) > 1 and isinstance(value, tuple) and len(value) == len(names)
        told |= dict(zip(names, value if one_each else [value] * len(names), strict=True))
    assert entries(text) == set(told)
    assert told == {n: p.default for n, p in inspect.signature(method).parameters.items()}


def test_every_fitted_attribute_is_described(
    method: Method, fitted: DeepMultiViewClusterer
) -> None:
    described: set[str] = set()
    for kind in method.__mro__:
        described |= entries(sections(kind.__dict__.get("__doc__")).get("Attributes", ""))
    found = {name for name in vars(fitted) if name.endswith("_")}
    assert found <= described


def test_the_examples_work(method: Method) -> None:
    module = importlib.import_module(method.__module__)
    examples = doctest.DocTestFinder().find(method, method.__name__, globs=vars(module).copy())
    runner = doctest.DocTestRunner()
    for example in examples:
        runner.run(example)
    assert runner.summarize(verbose=False).failed == 0
    assert runner.tries > 0
