"""Pages of the methods, made from their docstrings: ``python -m dwcl.report.method_pages FOLDER``.

A page is the docstring of a class in Markdown. The list of all methods adds what follows from the
classes themselves: how labels come out, and whether samples may lack views.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dwcl.methods.base import DeepMultiViewClusterer
from dwcl.methods.registry import methods
from dwcl.methods.soft import SoftClusterer
from dwcl.report.docstrings import Docstring, Entry, as_cell, as_markdown, as_program, entries

Method = type[DeepMultiViewClusterer]

LIST = "README.md"
MADE = "<!-- Made from docstrings by `python -m dwcl.report.method_pages docs/methods`. -->"
BEFORE = """\
Each is an estimator in Python and a choice of `dwcl fit --method`. Those that learn share one
engine, and none sees a label."""
AFTER = """\
`dwcl methods` lists them too, `dwcl methods METHOD` shows the settings of one, and
`dwcl recipes METHOD` its settings by name. [How to add one](../../ARCHITECTURE.md#how-to-add-)."""
_YEAR = re.compile(r"(?<![\d.–-])(?:19|20)\d\d(?!\.?\d)")


def pages() -> dict[str, str]:
    """Make all pages: texts by the names of their files."""
    made = {f"{name}.md": method_page(method) for name, method in methods().items()}
    return {LIST: list_page(), **made}


def method_page(method: Method) -> str:
    """Make the page of a method."""
    told = Docstring.of(method)
    name, class_name = method.method_name, method.__name__
    facts = (
        f"- In Python: `from {method.__module__} import {class_name}`",
        f"- On the command line: `dwcl fit DATA --clusters K --method {name}`",
        f"- Clusters: {clusters_from(method)}",
        f"- Samples that lack views: {missing_views(method)}",
        f"- [All methods]({LIST})",
    )
    parts = [
        MADE,
        f"# {class_name}: {as_markdown(told.title.removesuffix(f' ({class_name})'))}",
        "\n".join(facts),
        as_markdown(told.text),
    ]
    sections: dict[str, Callable[[str], str]] = {
        "Notes": as_markdown,
        "Parameters": lambda text: _parameters(method, entries(text)),
        "Attributes": lambda text: _attributes(entries(text)),
        "References": as_markdown,
        "Examples": lambda text: f"```python\n{as_program(text)}\n```",
    }
    for heading, shown in sections.items():
        if heading in told.sections:
            parts += [f"## {heading}", shown(told.sections[heading])]
    return "\n\n".join(part for part in parts if part) + "\n"


def list_page() -> str:
    """Make the list of all methods."""
    head = ("method", "name", "published", "clusters", "samples that lack views")
    rows = []
    for name, method in methods().items():
        told = Docstring.of(method)
        published = cited(told.sections.get("References", ""))
        link = f"[`{name}`]({name}.md)"
        rows.append(
            [link, as_cell(told.title), published, clusters_from(method), missing_views(method)]
        )
    return f"{MADE}\n\n# Methods\n\n{BEFORE}\n\n{_table(head, rows)}\n\n{AFTER}\n"


def clusters_from(method: Method) -> str:
    """Say how a method's labels come out."""
    if issubclass(method, SoftClusterer):
        return "the greatest share of a soft assignment"
    if method._distances_to is not DeepMultiViewClusterer._distances_to:
        return "the nearest centre, by distances of its own"
    return "k-means on its features"


def missing_views(method: Method) -> str:
    """Say what becomes of samples that lack views."""
    return "accepted" if getattr(method, "accepts_missing", False) else "refused"


def cited(references: str) -> str:
    """Shorten the first of some references, ``authors: title …, year``, to names and year."""
    first = " ".join(re.split(r"\n\s*\n", references.strip())[0].split())
    first = re.sub(r"^(\.\. )?\[\w+\] ", "", first)
    people = [name for name in re.split(r", (?:and )?| and ", first.partition(":")[0]) if name]
    if not people:
        return "–"
    names = [name.rpartition(" ")[2] for name in people]
    who = f"{names[0]} et al." if len(names) > 2 else " and ".join(names)
    year = _YEAR.search(first)
    return f"{who}, {year[0]}" if year else who


def _parameters(method: Method, found: list[Entry]) -> str:
    defaults = {name: p.default for name, p in inspect.signature(method).parameters.items()}
    rows = []
    for entry in found:
        values = list(dict.fromkeys(f"`{_written(defaults[name])}`" for name in entry.names))
        # Several values stand for several names; one that is the same for all stands once.
        shown = values if len(values) == 1 else [f"`{_written(defaults[n])}`" for n in entry.names]
        rows.append([_names(entry), as_cell(entry.kind), ", ".join(shown), as_cell(entry.text)])
    return _table(("parameter", "type", "default", "what it is"), rows)


def _attributes(found: list[Entry]) -> str:
    rows = [[_names(entry), as_cell(entry.kind), as_cell(entry.text)] for entry in found]
    return _table(("attribute", "type", "what it is"), rows)


def _names(entry: Entry) -> str:
    return ", ".join(f"`{name}`" for name in entry.names)


def _written(value: Any) -> str:
    """Write a default as Python has it, texts in the quotation marks of the documents."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _table(head: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def write_pages(folder: Path) -> list[Path]:
    """Write all pages into a folder, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
        written.append(folder / name)
    return written


def main(arguments: list[str]) -> int:
    """Write the pages into the folder that the command line names."""
    if len(arguments) != 1:
        sys.stderr.write("python -m dwcl.report.method_pages FOLDER\n")
        return 2
    write_pages(Path(arguments[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
