"""Rows of several tables, matched by the ids of their samples."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dwcl.errors import DataError

logger = logging.getLogger("dwcl.data")

_EXAMPLES = 3


@dataclass(frozen=True)
class Matching:
    """The samples that all tables have, in the order of the first table.

    Attributes
    ----------
    ids : array of n
        Their ids.
    rows : mapping of str to array of n
        For each table, the rows in which they lie.
    lines : tuple of str
        What was left out, one line; empty if nothing was.
    """

    ids: NDArray[Any]
    rows: Mapping[str, NDArray[np.intp]]
    lines: tuple[str, ...]


def match_samples(ids: Mapping[str, NDArray[Any]]) -> Matching:
    """Find the samples that all tables have, and report (also to the log) those left out.

    Parameters
    ----------
    ids : mapping of str to array
        The sample ids of each table, in the order of its rows.

    Raises
    ------
    DataError
        If an id occurs twice in a table, or no sample is in all tables.
    """
    places = {name: _places(name, values) for name, values in ids.items()}
    first = next(iter(places.values()))
    common = [key for key in first if all(key in place for place in places.values())]
    if not common:
        examples = "; ".join(f"'{name}' has {_some(list(place))}" for name, place in places.items())
        raise DataError(
            f"No sample is in all of the views: {examples}. Rows are matched by their ids or "
            "index; give the same ids to the same samples in every view."
        )
    rows = {
        name: np.array([place[key] for key in common], dtype=np.intp)
        for name, place in places.items()
    }
    first_ids = next(iter(ids.values()))
    return Matching(first_ids[next(iter(rows.values()))], rows, _report(places, set(common)))


def _places(name: str, values: NDArray[Any]) -> dict[Any, int]:
    keys = values.tolist()
    places = {key: row for row, key in enumerate(keys)}
    if len(places) < len(keys):
        twice = next(key for row, key in enumerate(keys) if places[key] != row)
        raise DataError(
            f"The sample id {twice!r} occurs more than once in view '{name}'; ids must tell "
            "samples apart. Keep one row per sample."
        )
    return places


def _report(places: Mapping[str, Mapping[Any, int]], common: set[Any]) -> tuple[str, ...]:
    left_out = {name: [key for key in place if key not in common] for name, place in places.items()}
    if not any(left_out.values()):
        return ()
    listed = ", ".join(
        f"{len(keys)} of view '{name}' ({_some(keys)})" for name, keys in left_out.items() if keys
    )
    line = f"samples: {len(common)} are in all views; left out: {listed}"
    logger.warning("%s", line)
    return (line,)


def _some(keys: list[Any]) -> str:
    shown = ", ".join(map(str, keys[:_EXAMPLES]))
    return f"{shown}, …" if len(keys) > _EXAMPLES else shown
