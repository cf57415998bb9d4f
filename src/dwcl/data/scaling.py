"""Scaling of the views to one order of magnitude, fitted once and applied to any samples.

Five kinds, chosen for all views together or by view:

============  ====================================================================================
``minmax``    Each feature is mapped linearly so that the fitted samples fill [0, 1].
``standard``  Each feature has mean 0 and variance 1 over the fitted samples.
``row-l2``    Each row is brought to length √d, so that its entries have mean square 1. Length 1
              would make the entries of wide views vanish beside a mean squared error.
``none``      The values as they are.
``auto``      ``row-l2`` for a view without negative values of which more than three quarters of
              the entries are zero (counts and tf-idf of words, bags of features), else
              ``standard``.
============  ====================================================================================

The rule of ``auto`` looks at values, not at storage: the same table gives the same choice whether
it comes dense or sparse. Where most entries are zero, ``standard`` would turn the few others of a
rare feature into outliers of √n standard deviations, and ``minmax`` would give the length of a text
more say than its words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from dwcl.data.blocks import place, row_blocks
from dwcl.data.missing import missing_rows, observed_blocks
from dwcl.data.multiview import Matrix, MultiView
from dwcl.data.profiles import Profile, Profiles, profile_views
from dwcl.errors import DataError, ModelError, SettingError, nearest

Kind: TypeAlias = Literal["minmax", "standard", "row-l2", "none"]
"""What a view's scaling can be once ``auto`` has been decided."""

KINDS: tuple[str, ...] = get_args(Kind)
CHOICES: tuple[str, ...] = (*KINDS, "auto")
DEFAULT = "minmax"
MOSTLY_ZERO = 0.75
"""Share of zeros above which ``auto`` takes a non-negative view for counts."""
SMALLEST_DEVIATION = 1e-150
"""Below it the squares of differences lose digits, or vanish."""

_Affine: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Scaling:
    """A fitted scaling: y = (x − offset) · factor by column, or rows to length √d.

    Values outside the range of the fitted samples are mapped by the same line, not clipped. A
    column that was constant (up to the rounding of double precision) in the fitted samples becomes
    0 for every sample under ``minmax`` and ``standard``, since nothing was learned of its scale.

    Attributes
    ----------
    kinds : mapping of str to str
        The kind of each view, in the order of the fitted views; never ``auto``.
    offsets, factors : mapping of str to ndarray of shape (d,)
        The linear map of each view's columns; 0 and 1 under ``row-l2`` and ``none``.
    notes : tuple of str
        What was decided from the data, one line each.

    Examples
    --------
    >>> data = MultiView({"a": [[0.0, 5.0], [2.0, 5.0], [4.0, 5.0]]})
    >>> Scaling.fit(data, "minmax").transform(data)[0].tolist()
    [[0.0, 0.0], [0.5, 0.0], [1.0, 0.0]]
    """

    kinds: Mapping[str, str]
    offsets: Mapping[str, NDArray[np.float64]]
    factors: Mapping[str, NDArray[np.float64]]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        set_ = object.__setattr__  # frozen: own copies replace what was given, once, here
        set_(self, "kinds", MappingProxyType(dict(self.kinds)))
        for part in ("offsets", "factors"):
            columns = {n: np.array(a, dtype=np.float64) for n, a in getattr(self, part).items()}
            for array in columns.values():
                array.flags.writeable = False
            set_(self, part, MappingProxyType(columns))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy by the parts: a read-only mapping cannot be copied to another process itself."""
        parts = (self.kinds, self.offsets, self.factors)
        return (Scaling, (*map(dict, parts), self.notes))

    @classmethod
    def fit(
        cls,
        data: MultiView,
        spec: str | Mapping[str, str] = DEFAULT,
        profiles: Profiles | None = None,
    ) -> Scaling:
        """Find the scaling of each view.

        Parameters
        ----------
        data : MultiView
            The samples to learn from; their values must be finite (see
            :func:`dwcl.data.checks.check_values`).
        spec : str or mapping of str to str
            One kind for all views, or kinds by view name; views that a mapping does not name get
            ``minmax``.
        profiles : mapping of str to Profile, optional
            What :func:`dwcl.data.profiles.profile_views` found; looked for when absent.

        Raises
        ------
        SettingError
            If a kind or a view's name is unknown.
        DataError
            If a column has no finite range.
        """
        kinds: dict[str, str] = {}
        affine: dict[str, _Affine] = {}
        notes = []
        chosen = resolve_spec(spec, data.names)
        found = profile_views(data) if profiles is None else profiles
        for name, choice in chosen.items():
            view = data[name]
            kinds[name] = choice
            if choice == "auto":
                kinds[name], reason = decide(found[name])
                notes.append(f"View '{name}': scaling {kinds[name]} ({reason}).")
            affine[name] = _fit_columns(view, found[name], kinds[name])
            bad = ~np.isfinite(affine[name]).all(axis=0)
            if bad.any():
                raise DataError(
                    f"View '{name}' cannot be scaled: column {int(bad.argmax())} (counted from 0) "
                    "has NaN, infinite or extremely large values. Remove or replace them first."
                )
        return cls(
            kinds=kinds,
            offsets={name: offset for name, (offset, _) in affine.items()},
            factors={name: factor for name, (_, factor) in affine.items()},
            notes=tuple(notes),
        )

    @property
    def widths(self) -> dict[str, int]:
        """Number of columns of each view."""
        return {name: len(offset) for name, offset in self.offsets.items()}

    def transform(self, data: MultiView) -> list[NDArray[np.float32]]:
        """Scale samples of the same views.

        Each row is computed by itself, so the rows of a part of the samples are, bit for bit, the
        rows of the whole.

        Parameters
        ----------
        data : MultiView
            Views with the names and widths of the fitted ones, in any order. Missing rows (NaN
            throughout) stay as they are.

        Returns
        -------
        list of ndarray of shape (n, d_v)
            New C-contiguous arrays of single precision, in the order of the fitted views.

        Raises
        ------
        DataError
            If views or widths differ, or a value is not finite in single precision.
        """
        self.check(data)
        return [self._transform_view(data, name) for name in self.kinds]

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Return the arrays that, with :attr:`kinds`, make this scaling again."""
        state = {}
        for name in self.kinds:
            state[f"{name}/offset"] = self.offsets[name].copy()
            state[f"{name}/factor"] = self.factors[name].copy()
        return state

    @classmethod
    def from_state(
        cls, kinds: Mapping[str, str], arrays: Mapping[str, NDArray[np.float64]]
    ) -> Scaling:
        """Make a scaling from its kinds and :meth:`state`; arrays of other names are left alone."""
        found: dict[str, dict[str, NDArray[np.float64]]] = {"offset": {}, "factor": {}}
        for name, kind in kinds.items():
            if kind not in KINDS:
                raise ModelError(
                    f"The stored scaling of view '{name}' is of kind '{kind}', "
                    f"which this version does not know. {nearest(kind, KINDS)}"
                )
            for part, columns in found.items():
                key = f"{name}/{part}"
                if key not in arrays:
                    raise ModelError(
                        f"The stored scaling has no '{key}': the file is incomplete. "
                        "Use a complete copy, or fit again."
                    )
                columns[name] = np.asarray(arrays[key], dtype=np.float64)
            shapes = [columns[name].shape for columns in found.values()]
            if shapes[0] != shapes[1] or len(shapes[0]) != 1:
                raise ModelError(
                    f"The stored scaling of view '{name}' has an offset of shape {shapes[0]} and a "
                    f"factor of shape {shapes[1]}; two vectors of one length are expected. "
                    "Use a complete copy, or fit again."
                )
        return cls(kinds=kinds, offsets=found["offset"], factors=found["factor"])

    def check(self, data: MultiView) -> None:
        """Refuse data whose views or widths are not those of the fit."""
        for name in self.kinds:
            if name not in data.views:
                raise DataError(
                    f"View '{name}' is missing; views {', '.join(data.names)} came, but views "
                    f"{', '.join(self.kinds)} were fitted. Give all of them."
                )
        for name, width in zip(data.names, data.widths, strict=True):
            if name not in self.kinds:
                raise DataError(
                    f"View '{name}' was not fitted; views {', '.join(self.kinds)} were. "
                    "Leave it out, or fit again with it."
                )
            if width != self.widths[name]:
                raise DataError(
                    f"View '{name}' has {width} features, but {self.widths[name]} were fitted. "
                    "Give the same columns in the same order."
                )

    def _transform_view(self, data: MultiView, name: str) -> NDArray[np.float32]:
        scaled = np.empty(data[name].shape, dtype=np.float32)
        self.transform_rows(data, name, 0, scaled)
        return scaled

    def transform_rows(
        self, data: MultiView, name: str, first: int, out: NDArray[np.float32]
    ) -> None:
        """Scale consecutive samples of one view, from `first` on, as many as `out` (b × d) takes.

        The views are not compared with the fitted ones here; :meth:`check` does that.
        """
        kind, offset, factor = self.kinds[name], self.offsets[name], self.factors[name]
        for start, block in row_blocks(data[name], first, first + len(out)):
            target = out[start - first : start - first + len(block)]
            # What single precision cannot hold is reported below, with its place.
            with np.errstate(over="ignore", invalid="ignore"):
                if kind == "row-l2":
                    target[:] = rows_to_root_width(block)
                elif kind == "none":
                    target[:] = block
                else:
                    target[:] = (block - offset) * factor
            finite = np.isfinite(target)
            if not finite.all():
                finite[missing_rows(block)] = True  # a missing row stays NaN
            if not finite.all():
                row, column = np.unravel_index(int(finite.argmin()), finite.shape)
                where = place(data, name, start + int(row), int(column))
                raise DataError(
                    f"View '{name}' has {block[row, column]:g} in {where}, which scaling '{kind}' "
                    "cannot bring into the range of single precision. Replace such values."
                )


def resolve_spec(spec: str | Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """Give each view its kind from one kind for all or kinds by name, `auto` left as it is."""
    if isinstance(spec, str):
        return {name: _known_kind(spec) for name in names}
    if not isinstance(spec, Mapping):
        raise SettingError(
            f"The scaling is {spec!r}; one of {', '.join(CHOICES)} is expected, "
            "or a mapping from view names to these."
        )
    for name in spec:
        if name not in names:
            raise SettingError(
                f"The scaling names a view '{name}', which the data do not have. "
                f"{nearest(str(name), names)}"
            )
    return {name: _known_kind(spec.get(name, DEFAULT)) for name in names}


def decide(found: Profile) -> tuple[Kind, str]:
    """Choose between ``row-l2`` and ``standard`` by the values of a view, and say why."""
    if (found.low < 0).any():
        return "standard", "it has negative values"
    share = found.zeros / (found.n_observed * len(found.low))
    # Rounded down: «75 % are zero» must not stand beside a rule of more than 75 %.
    reason = f"no negative values, {math.floor(100 * share)} % zeros"
    return ("row-l2" if share > MOSTLY_ZERO else "standard"), reason


def rows_to_root_width(block: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bring each row (b × d) to length √d; zero rows stay zero."""
    largest = np.abs(block).max(axis=1, keepdims=True)  # (b, 1)
    # Divided by its largest entry first, no row's squares overflow or vanish.
    unit = block / np.where(largest > 0, largest, 1.0)
    mean_square = np.square(unit).sum(axis=1, keepdims=True) / block.shape[1]
    scaled: NDArray[np.float64] = unit / np.sqrt(np.where(mean_square > 0, mean_square, 1.0))
    return scaled


def _known_kind(kind: str) -> str:
    if kind not in CHOICES:
        raise SettingError(f"There is no scaling '{kind}'. {nearest(str(kind), CHOICES)}")
    return kind


def _fit_columns(view: Matrix, found: Profile, kind: str) -> _Affine:
    width = view.shape[1]
    if kind not in ("minmax", "standard"):
        return np.zeros(width), np.ones(width)
    low, high = found.low, found.high
    with np.errstate(over="ignore", invalid="ignore"):
        spread = high - low
        # What remains of a constant after arithmetic in another order is a few last bits.
        rounding = 8 * np.finfo(np.float64).eps * np.maximum(np.abs(low), np.abs(high))
        spread[np.isinf(spread)] = np.nan  # 1 / inf would pass for a constant column
        constant = spread <= np.maximum(rounding, np.finfo(np.float64).tiny)
        spread[constant] = 1.0
        if kind == "minmax":
            offset, scale = low, spread
        else:
            offset, scale = found.mean, found.deviation.copy()
            sound = constant | (np.isfinite(scale) & (scale > SMALLEST_DEVIATION))
            if not (sound | np.isnan(spread)).all():
                offset, scale = _mean_and_deviation(view, low, spread)
            scale[constant] = 1.0
        factor = 1.0 / np.where(np.isnan(spread), np.nan, scale)
    factor[constant] = 0.0
    return offset, factor


def _mean_and_deviation(
    view: Matrix, low: NDArray[np.float64], spread: NDArray[np.float64]
) -> _Affine:
    """Mean and standard deviation of each column for values of extreme size, by two more passes.

    The sums are taken over z = (x − low) / spread, which lies in [0, 1].
    """
    n = 0
    mean = np.zeros_like(low)
    for rows, block in observed_blocks(view):
        n += len(rows)
        mean += ((block - low) / spread).sum(axis=0)
    mean /= n
    variance = np.zeros_like(low)
    for _, block in observed_blocks(view):
        variance += np.square((block - low) / spread - mean).sum(axis=0)
    variance /= n
    return low + spread * mean, spread * np.sqrt(variance)
