"""Views by the prefixes of column names, such as ``rna_TP53`` or ``protein:P04637``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dwcl.data.readers.textfile import is_number
from dwcl.errors import DataError, nearest

_STRONG = ":"  # in no ordinary name of a feature
_MARKS = (_STRONG, ".", "_")
_COLUMNS_OF_A_TABLE = 3
_SHOWN = 5


def by_prefix(
    names: Sequence[str] | None, width: int, wanted: Sequence[str] | None
) -> dict[str, list[int]]:
    """Group columns into views by the prefixes of their names.

    A prefix counts if it occurs at least twice, so that a table of unrelated names such as
    ``age_years, heart_rate`` is one view. Of several marks between prefix and rest the one that
    makes the fewest views is taken.

    Parameters
    ----------
    names : sequence of str, optional
        Names of the columns.
    width : int
        Number of columns.
    wanted : sequence of str, optional
        The prefixes that the user names; ``view1`` is one table of all columns.

    Returns
    -------
    dict of str to list of int
        Positions of the columns of each view.

    Raises
    ------
    DataError
        If a wanted prefix is not there; and, unless the user has said, if some columns have a
        prefix and others have none, or if the prefixes have too few columns to mean tables.
    """
    whole = {"view1": list(range(width))}
    groupings = {
        mark: grouping for mark in _MARKS if (grouping := _grouped(names or (), mark)) is not None
    }
    if wanted is not None:
        return whole if list(wanted) == ["view1"] else _wanted(wanted, list(groupings.values()))
    tables = {mark: grouping for mark, grouping in groupings.items() if _repeated(grouping) > 1}
    if names is None or not tables:
        return whole
    rest = {mark: _rest(grouping) for mark, grouping in tables.items()}
    mark = min(tables, key=lambda mark: (len(rest[mark]), len(tables[mark])))
    if rest[mark]:
        raise _with_leftovers(tables[mark], [names[j] for j in rest[mark]])
    if mark != _STRONG and width < _COLUMNS_OF_A_TABLE * len(tables[mark]):
        raise _with_few_columns(tables[mark], width)
    return tables[mark]


def _grouped(names: Sequence[str], mark: str) -> dict[str, list[int]] | None:
    """Return positions by prefix; names without one are under the empty prefix."""
    groups: dict[str, list[int]] = {}
    for j, name in enumerate(names):
        prefix, found, rest = name.partition(mark)
        has_prefix = found and rest and not is_number(name)  # wavelengths, say
        groups.setdefault(prefix.strip() if has_prefix else "", []).append(j)
    return groups if set(groups) - {""} else None


def _wanted(
    wanted: Sequence[str], groupings: Sequence[Mapping[str, list[int]]]
) -> dict[str, list[int]]:
    for grouping in groupings:
        if set(wanted) <= set(grouping) - {""}:
            return {name: grouping[name] for name in wanted}
    known = {name for grouping in groupings for name in grouping if name} | {"view1"}
    unknown = next((name for name in wanted if name not in known), wanted[0])
    raise DataError(f"There is no view '{unknown}'. {nearest(unknown, known)}")


def _repeated(grouping: Mapping[str, list[int]]) -> int:
    return sum(_is_table(prefix, at) for prefix, at in grouping.items())


def _is_table(prefix: str, positions: Sequence[int]) -> bool:
    return bool(prefix) and len(positions) > 1


def _rest(grouping: Mapping[str, list[int]]) -> list[int]:
    """Return the columns without a prefix, or with one of their own."""
    return sorted(j for prefix, at in grouping.items() if not _is_table(prefix, at) for j in at)


def _with_leftovers(grouping: Mapping[str, list[int]], left: Sequence[str]) -> DataError:
    prefixes = [prefix for prefix, at in grouping.items() if _is_table(prefix, at)]
    first = left[0]
    verb = "column belongs" if len(left) == 1 else "columns belong"
    return DataError(
        f"Column prefixes make the views {_listed(prefixes)}, but {len(left)} {verb} to none of "
        f"them: {_listed(left)}. Say what is meant: labels='{first}' (--labels {first}) if it "
        f"holds the classes, id_column='{first}' (--id-column {first}) if it holds sample ids, "
        f"{_views(prefixes)} to leave out what has no prefix, or {_views(['view1'])} for one "
        "table of all columns."
    )


def _with_few_columns(grouping: Mapping[str, list[int]], width: int) -> DataError:
    prefixes = list(grouping)
    return DataError(
        f"The {width} columns can be read in two ways: as one table, or as the {len(prefixes)} "
        f"views {_listed(prefixes)} by the prefixes of their names. Say which: "
        f"{_views(['view1'])} for one table of all columns, or {_views(prefixes)}."
    )


def _views(names: Sequence[str]) -> str:
    """Word a choice of views in Python and on the command line."""
    shown = list(names) if len(names) <= _SHOWN else [*names[:_SHOWN], "…"]
    return f"views={shown} (--views {','.join(shown)})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
