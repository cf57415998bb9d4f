"""What the variables of a file mean: which are the views, which the labels, which neither.

Files of arrays (MATLAB, NumPy, HDF5) come in many layouts. Their readers hand over a plain mapping
from names to arrays, sparse matrices and lists ("cells"); everything that is inferred is inferred
here, from names and shapes alone, by these rules in this order:

1. Views are the tables in a cell called ``X``, ``fea``, ``data`` …; or numbered variables ``X1``,
   ``X2`` …; or the tables in any other cell; or all tables with the same number of samples.
2. Labels are a vector called ``Y``, ``gt``, ``truth`` … as long as the views have samples.
3. Where the samples lie follows from the number of labels, else from the length that all views
   share (:mod:`dwcl.data.readers.orientation`).
4. A square table beside others that is symmetric or has a constant diagonal is a graph of the
   samples, not a view, unless it is asked for by name.

What fits no rule, or two readings, is refused with a message that names them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from dwcl.data.ondisk import DiskTable
from dwcl.data.readers.base import Reading, Request
from dwcl.data.readers.label_vectors import (
    LabelVector,
    choose_labels,
    label_vectors,
    labels_asked_for,
)
from dwcl.data.readers.names import VIEW_NAMES, full_name, leaf, plain
from dwcl.data.readers.orientation import (
    is_symmetric,
    laid_in_rows,
    orient,
    orientation_line,
    possible_lengths,
    shapes_in_words,
)
from dwcl.errors import DataError, nearest


@dataclass(frozen=True)
class Unusable:
    """A variable that holds no numbers, such as a struct, and what it is."""

    what: str


Variable: TypeAlias = Any
"""A NumPy array, a scipy sparse matrix, a list of such (a cell), or :class:`Unusable`."""

_NUMBERED = re.compile(r"^(?P<stem>.*?)(?P<number>\d+)$")


@dataclass(frozen=True)
class _Choice:
    """The tables that are taken for views.

    `asked_for` tells that the user named them, `must_agree` that all of them belong together, so
    that a table of another length is an error and not a stranger.
    """

    tables: Mapping[str, Any]
    words: str
    used: frozenset[str]
    asked_for: bool = False
    must_agree: bool = True


def infer(
    variables: Mapping[str, Variable], request: Request, *, rows_in_doubt: bool = False
) -> Reading:
    """Find views, labels and orientation in the variables of a file.

    Parameters
    ----------
    variables : mapping of str to variable
        What the file holds, in its order; parts of a name are divided by slashes.
    request : Request
        What the user says.
    rows_in_doubt : bool
        Whether samples lie in rows where nothing decides.

    Raises
    ------
    DataError
        If there are no views, parts contradict each other, or two readings are possible.
    """
    vectors = label_vectors(variables, request.views or ())
    choice = _choose(variables, request, {vector.name for vector in vectors})
    if request.labels is not None:
        vectors = [labels_asked_for(variables, request.labels)]
    elif request.given_labels is not None:
        vectors = []
    if not choice.must_agree:
        choice = _without_strangers(choice, vectors, request)
    choice = replace(choice, tables=_short_names(choice.tables))
    lengths = possible_lengths(choice.tables, request.transpose)
    labels = choose_labels(vectors, lengths) if request.labels is None else vectors[0]
    known = labels or request.given_labels
    n_labels = None if known is None else len(known.values)
    views, graphs = _without_graphs(choice, n_labels, request)
    columns = orient(views, n_labels, request.transpose, rows_in_doubt=rows_in_doubt)
    return Reading(
        views={name: laid_in_rows(table, columns[name]) for name, table in views.items()},
        labels=None if labels is None else labels.values,
        lines=(
            _views_line(choice.words, views, columns),
            orientation_line(columns),
            *(() if labels is None else (labels.line(),)),
            *_ignored_lines(variables, choice, labels, graphs),
        ),
    )


# -- which variables are views -------------------------------------------------------------------


def _choose(variables: Mapping[str, Variable], request: Request, taken: set[str]) -> _Choice:
    free = {name: value for name, value in variables.items() if name not in taken}
    if request.views is None:
        return _by_rules(free, variables)
    wanted = [found for name in request.views if (found := full_name(name, variables))]
    if len(wanted) == len(request.views):
        return _asked_for({name: variables[name] for name in wanted})
    choice = _by_rules(free, variables)
    short = dict(zip(_short_names(choice.tables), choice.tables, strict=True))
    for name in request.views:
        if name not in short:
            known = {*short, *variables}
            raise DataError(f"There is no view or variable '{name}'. {nearest(name, known)}")
    tables = {short[name]: choice.tables[short[name]] for name in request.views}
    return replace(choice, tables=tables, asked_for=True, must_agree=True)


def _asked_for(chosen: Mapping[str, Variable]) -> _Choice:
    """Take the variables that the user names, whatever they are called."""
    tables: dict[str, Any] = {}
    for name, value in chosen.items():
        if isinstance(value, Unusable):
            raise DataError(f"'{name}' cannot be a view: it is {value.what}.")
        if isinstance(value, list):
            stem = "view" if len(chosen) == 1 else name
            tables |= {f"{stem}{i}": table for i, table in enumerate(value, 1) if is_table(table)}
        elif is_numeric(value) and value.ndim == 1:
            tables[name] = value[:, np.newaxis]
        elif is_table(value):
            tables[name] = value
    if not tables:
        raise DataError(f"{', '.join(chosen)}: no table of samples × features is in there.")
    words = f"variable{'s' if len(chosen) > 1 else ''} {', '.join(chosen)}"
    return _Choice(tables, words, frozenset(chosen), asked_for=True)


def _by_rules(free: Mapping[str, Variable], variables: Mapping[str, Variable]) -> _Choice:
    cells = {
        name: {f"view{i}": table for i, table in enumerate(value, 1) if is_table(table)}
        for name, value in free.items()
        if isinstance(value, list)
    }
    cells = {name: tables for name, tables in cells.items() if tables}
    named_cells = {name: tables for name, tables in cells.items() if _is_view_name(name)}
    if named_cells:
        return _one_cell(named_cells)
    families = _families(free)
    if families:
        return _one_family(families)
    matrices = {name: v for name, v in free.items() if is_table(v) and not _is_vector(v)}
    if cells and not any(_is_view_name(name) for name in matrices):
        return _one_cell(cells)
    _refuse_hidden_views(variables)
    if not matrices:
        raise DataError(_nothing_found(variables))
    return _variables(matrices)


def _variables(matrices: Mapping[str, Any]) -> _Choice:
    words = f"variable{'s' if len(matrices) > 1 else ''} {', '.join(matrices)}"
    used = frozenset(matrices)
    if len(matrices) == 1:
        matrices = {"view1": next(iter(matrices.values()))}
    return _Choice(matrices, words, used, must_agree=len(matrices) == 1)


def _one_cell(cells: Mapping[str, Mapping[str, Any]]) -> _Choice:
    if len(cells) > 1:
        listed = " or ".join(f"{name} ({len(tables)} tables)" for name, tables in cells.items())
        raise DataError(
            f"The views can be read in {len(cells)} ways: cell {listed}. "
            f"Say which with views, for example views=['{next(iter(cells))}']."
        )
    ((name, tables),) = cells.items()
    count = "1 table" if len(tables) == 1 else f"{len(tables)} tables"
    return _Choice(tables, f"cell {name} with {count}", frozenset({name}))


def _one_family(families: Mapping[str, Mapping[str, Any]]) -> _Choice:
    if len(families) > 1:
        listed = " or ".join(", ".join(members) for members in families.values())
        raise DataError(
            f"The views can be read in {len(families)} ways: {listed}. Say which with views."
        )
    (members,) = families.values()
    return _Choice(members, f"variables {', '.join(members)}", frozenset(members))


def _families(free: Mapping[str, Variable]) -> dict[str, dict[str, Any]]:
    """Return tables that belong together: a group of a file, or X1, X2 … in order."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name, value in free.items():
        group, slash, _ = name.rpartition("/")
        match = _NUMBERED.match(name)
        if not is_table(value):
            continue
        if slash and _is_view_name(group):
            found.setdefault(group, []).append((int(match["number"]) if match else 0, name))
        elif match and _is_view_name(match["stem"]):
            found.setdefault(match["stem"], []).append((int(match["number"]), name))
    return {
        stem: {name: free[name] for _, name in sorted(members, key=lambda member: member[0])}
        for stem, members in found.items()
        if len(members) > 1 and not all(_is_vector(free[name]) for _, name in members)
    }


def _without_strangers(choice: _Choice, vectors: list[LabelVector], request: Request) -> _Choice:
    """Keep the tables that have as many samples as there are labels, if any has."""
    lengths = [len(vector.values) for vector in vectors]
    if request.given_labels is not None:
        lengths = [len(request.given_labels.values)]
    for n in lengths:
        fitting = {
            name: table
            for name, table in choice.tables.items()
            if n in possible_lengths({name: table}, _told(name, request.transpose))
        }
        if fitting:
            return _variables(fitting)
    one_by_one = [
        possible_lengths({name: table}, _told(name, request.transpose))
        for name, table in choice.tables.items()
    ]
    if not set.intersection(*one_by_one):
        raise DataError(
            f"It is not clear which variables are views: {shapes_in_words(choice.tables)} have "
            "different numbers of samples. Name the views with views, or the labels with labels."
        )
    return choice


def _told(name: str, transpose: bool | Sequence[str] | None) -> bool | None:
    if transpose is None or isinstance(transpose, bool):
        return transpose
    return name in transpose or leaf(name) in transpose


def _without_graphs(
    choice: _Choice, n_labels: int | None, request: Request
) -> tuple[dict[str, Any], list[str]]:
    """Leave out n × n graphs of the samples where other tables are there."""
    tables = dict(choice.tables)
    lengths = possible_lengths(tables, request.transpose)
    n = n_labels if n_labels is not None else (next(iter(lengths)) if len(lengths) == 1 else None)
    square = [name for name, table in tables.items() if table.shape == (n, n)]
    if choice.asked_for or len(square) == len(tables):
        return tables, []
    graphs = [name for name in square if _is_graph(tables[name])]
    return {name: table for name, table in tables.items() if name not in graphs}, graphs


def _is_graph(table: Any) -> bool:
    """Tell relations of samples from features: each is as related to itself as any other is."""
    if isinstance(table, DiskTable):
        table = np.asarray(table)
    diagonal = table.diagonal()
    return bool((diagonal == diagonal[0]).all()) or is_symmetric(table)


def _refuse_hidden_views(variables: Mapping[str, Variable]) -> None:
    """Refuse to take other tables for views where the likely ones cannot be read."""
    for name, value in variables.items():
        if isinstance(value, Unusable) and _is_view_name(name):
            raise DataError(
                f"'{name}' should hold the views, but it is {value.what}. Save each view as an "
                "array of numbers of its own, or name other variables with views."
            )


def _nothing_found(variables: Mapping[str, Variable]) -> str:
    listed = ", ".join(f"{name} ({_in_words(value)})" for name, value in variables.items())
    return (
        f"No table of samples × features was found; the file holds {listed or 'no variables'}. "
        "Views are expected as matrices of numbers, in a cell or as variables."
    )


# -- what kind of thing a variable is --------------------------------------------------------------


def is_numeric(value: Variable) -> bool:
    """Tell arrays of numbers (complex ones too, which are refused later, by name)."""
    if isinstance(value, np.ndarray | DiskTable):
        return value.dtype.kind in "biufc"
    return bool(sp.issparse(value))


def is_table(value: Variable) -> bool:
    """Tell arrays that can be a view: two sides or more, and not a single number."""
    return is_numeric(value) and value.ndim > 1 and np.prod(value.shape) > 1


def _is_vector(value: Variable) -> bool:
    return bool(max(value.shape) == np.prod(value.shape))


def _is_view_name(name: str) -> bool:
    return plain(leaf(name)) in VIEW_NAMES


def _short_names(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Name tables by the last part of their names where that tells them apart."""
    short = [leaf(name) for name in tables]
    short = [f"view{name}" if name.isdigit() else name for name in short]
    if len(set(short)) < len(short):
        return dict(tables)
    return dict(zip(short, tables.values(), strict=True))


def _in_words(value: Variable) -> str:
    if isinstance(value, Unusable):
        return value.what
    if isinstance(value, list):
        return f"a cell of {len(value)}"
    if not is_numeric(value):
        return "text"
    return " × ".join(map(str, value.shape)) or "a number"


# -- what is said about it -------------------------------------------------------------------------


def _views_line(words: str, views: Mapping[str, Any], columns: Mapping[str, bool]) -> str:
    widths = [
        int(np.prod(t.shape)) // t.shape[-1 if columns[name] else 0] for name, t in views.items()
    ]
    return f"views: {words}, {' + '.join(map(str, widths))} features"


def _ignored_lines(
    variables: Mapping[str, Variable],
    choice: _Choice,
    labels: LabelVector | None,
    graphs: list[str],
) -> list[str]:
    lines = []
    if graphs:
        lines.append(
            f"left out: {', '.join(graphs)} (graphs of the samples; name them in views to use them)"
        )
    used = {*choice.used, *([] if labels is None else [labels.name])}
    ignored = [f"{n} ({_in_words(v)})" for n, v in variables.items() if n not in used]
    if ignored:
        lines.append(f"ignored: {', '.join(ignored)}")
    return lines
