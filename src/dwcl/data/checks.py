"""Checks of the values before training and before prediction, with the place in the message."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dwcl.data.blocks import dense_rows, place, row_blocks, rows_of_block
from dwcl.data.missing import missing_rows
from dwcl.data.multiview import Matrix, MultiView
from dwcl.data.profiles import Profile, Profiles, profile_views
from dwcl.errors import DataError

LARGEST = float(np.sqrt(np.finfo(np.float32).max))
"""Magnitude above which the square of a value overflows single precision."""

_SHOWN = 3


def check_values(
    data: MultiView,
    *,
    scaling_kinds: Mapping[str, str] | None = None,
    profiles: Profiles | None = None,
) -> list[str]:
    """Check the values that a model is to be trained on.

    Parameters
    ----------
    data : MultiView
        The samples for training.
    scaling_kinds : mapping of str to str, optional
        The scaling by view where it is known; rows of zeros are of interest under ``row-l2`` only.
    profiles : mapping of str to Profile, optional
        What :func:`dwcl.data.profiles.profile_views` found; looked for when absent.

    Returns
    -------
    list of str
        What is worth knowing and no obstacle: constant columns, rows of zeros, equal views.

    Raises
    ------
    DataError
        If a value is NaN (but for rows that are NaN throughout: they are missing), infinite or so
        large that its square overflows single precision, or if all samples are the same in a view.
    """
    found = profile_views(data) if profiles is None else profiles
    check_finite(data, found)
    notes = []
    for name in data.names:
        if data.n_samples > 1:
            notes += _note_constant_columns(data, name, found[name])
        if scaling_kinds is None or scaling_kinds.get(name) == "row-l2":
            notes += _note_zero_rows(data, name, found[name])
    return notes + _note_equal_views(data)


def check_finite(data: MultiView, profiles: Profiles | None = None) -> None:
    """Check the values of samples for a fitted model: finite and not extremely large.

    A single sample, or a view in which all samples are the same, is nothing unusual here.

    Parameters
    ----------
    data : MultiView
        The samples.
    profiles : mapping of str to Profile, optional
        What :func:`dwcl.data.profiles.profile_views` found; looked for when absent.

    Raises
    ------
    DataError
        If a value is NaN, infinite or so large that its square overflows single precision. Rows
        that are NaN throughout are missing, and no fault.
    """
    found = profile_views(data) if profiles is None else profiles
    for name in data.names:
        if not _is_sound(found[name]):
            _raise_for_values(data, name)


def check_observed(data: MultiView, observed: NDArray[np.bool_], *, training: bool) -> None:
    """Refuse a sample that lacks all views, and for training a view that all samples lack.

    Parameters
    ----------
    data : MultiView
        The samples.
    observed : ndarray of n × V, bool
        Which samples have which views.
    training : bool
        Whether a model is to be trained on them; a fitted one may get samples of some views alone.
    """
    if training and not observed.any(axis=0).all():
        name = data.names[int(observed.any(axis=0).argmin())]
        raise DataError(
            f"No sample has view '{name}': all of its rows are NaN. Leave this view out."
        )
    if not observed.any(axis=1).all():
        lost = np.flatnonzero(~observed.any(axis=1))
        (first,) = data.sample_ids[lost[:1]].tolist()
        more = f", and {len(lost) - 1} more," if len(lost) > 1 else ""
        raise DataError(
            f"Sample {first!r}{more} lacks every view: NaN throughout. "
            "Leave out samples of which nothing is known."
        )


def _is_sound(found: Profile) -> bool:
    # NaN compares false, so that it fails the test too.
    return bool(np.all(found.low >= -LARGEST) and np.all(found.high <= LARGEST))


def _raise_for_values(data: MultiView, name: str) -> None:
    """Find and count the values that cannot be used, and report the gravest sort of them."""
    counts = {"NaN": 0, "infinite": 0, "huge": 0}
    first: dict[str, str] = {}
    for start, block in row_blocks(data[name]):
        missing = missing_rows(block)[:, None]  # they are no fault
        masks = {"NaN": np.isnan(block) & ~missing, "infinite": np.isinf(block)}
        masks["huge"] = (np.abs(block) > LARGEST) & ~masks["infinite"]
        for sort, mask in masks.items():
            counts[sort] += int(np.count_nonzero(mask))
            if sort not in first and mask.any():
                row, column = np.unravel_index(int(mask.argmax()), mask.shape)
                where = place(data, name, start + int(row), int(column))
                first[sort] = f"{where} ({block[row, column]:g})" if sort == "huge" else where
    sort = next(sort for sort, count in counts.items() if count)
    found = (
        f"{counts[sort]} {sort} values, the first in" if counts[sort] > 1 else f"1 {sort} value in"
    )
    ways = {
        "NaN": "Fill in or remove what is missing; finite numbers are expected.",
        "infinite": "Replace inf by finite numbers, or leave out these samples or columns.",
        "huge": f"Magnitudes up to {LARGEST:.1e} are expected; give this view in larger units.",
    }
    raise DataError(f"View '{name}' has {found} {first[sort]}. {ways[sort]}")


def _note_constant_columns(data: MultiView, name: str, found: Profile) -> list[str]:
    constant = found.low == found.high
    if found.n_observed == 1:
        raise DataError(
            f"Only 1 of {data.n_samples} samples has view '{name}', so it cannot tell groups "
            "apart. Leave this view out."
        )
    if constant.all():
        raise DataError(
            f"All {found.n_observed} samples are the same in view '{name}' (every column is "
            "constant), so it cannot tell groups apart. Leave this view out."
        )
    if not constant.any():
        return []
    positions = np.flatnonzero(constant)
    shown = [
        data.columns[name][i] if name in data.columns else str(i)
        for i in positions[:_SHOWN].tolist()
    ]
    if len(positions) > _SHOWN:
        shown.append("…")
    share = f"{len(positions)} of {len(constant)} columns"
    return [f"View '{name}': {share} are constant and carry no information ({', '.join(shown)})."]


def _note_zero_rows(data: MultiView, name: str, found: Profile) -> list[str]:
    empty = found.empty_rows
    if not len(empty):
        return []
    shown = [repr(sample) for sample in data.sample_ids[empty[:_SHOWN]].tolist()]
    if len(empty) > _SHOWN:
        shown.append("…")
    share = f"{len(empty)} of {found.n_observed} samples"
    return [f"View '{name}': {share} are all zeros ({', '.join(shown)})."]


def _note_equal_views(data: MultiView) -> list[str]:
    return [
        f"Views '{one}' and '{other}' are equal, so what they say counts twice."
        for one, other in combinations(data.names, 2)
        if _are_equal(data[one], data[other])
    ]


def _are_equal(one: Matrix, other: Matrix) -> bool:
    """Compare by blocks; different views part at the first."""
    if one.shape != other.shape:
        return False
    step = rows_of_block(one.shape[1])
    return all(
        np.array_equal(dense_rows(one, i, i + step), dense_rows(other, i, i + step), equal_nan=True)
        for i in range(0, one.shape[0], step)
    )
