"""The names by which views, labels and sample ids go in public files."""

from __future__ import annotations

from collections.abc import Iterable

CLEAR_NAMES = frozenset(
    {"y", "gt", "gnd", "truth", "groundtruth", "label", "labels", "truelabel", "truelabels"}
    | {"class", "classlabel", "classlabels", "target", "targets", "ytrue", "trueclass"}
)
"""Names that mean labels, in the form of :func:`plain`."""

POSSIBLE_NAMES = frozenset(
    {"c", "s", "l", "t", "cls", "cids", "lab", "gtlabel", "category", "classes"}
)
"""Names that mean labels where nothing with a clear name fits."""

VIEW_NAMES = frozenset(
    {"x", "xs", "fea", "feas", "feature", "features", "data", "dataset", "view", "views", "v"}
    | {"xv", "xview", "multiview", "mv", "feat", "feats"}
)
"""Names that mean views, alone or before a number, in the form of :func:`plain`."""

ID_NAMES = frozenset(
    {"", "id", "ids", "sample", "samples", "sampleid", "sampleids", "samplename", "patientid"}
    | {"barcode", "rownames", "unnamed:0", "indexlevel0"}
)
"""Names of columns that tell samples apart, in the form of :func:`plain`."""


def plain(name: str) -> str:
    """Return a name without case, spaces, dashes and underscores."""
    return "".join(letter for letter in name.strip().lower() if letter not in " _-")


def leaf(name: str) -> str:
    """Return the last part of a name with groups, such as ``rna`` of ``views/rna``."""
    return name.rsplit("/", 1)[-1]


def full_name(name: str, known: Iterable[str]) -> str | None:
    """Find a name among those with groups, by itself or by its last part if only one has it."""
    known = tuple(known)
    if name in known:
        return name
    matches = [full for full in known if leaf(full) == name]
    return matches[0] if len(matches) == 1 else None
