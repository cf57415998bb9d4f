"""What a user hands to an estimator, brought to the views that its networks know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from dwcl.data.checks import check_observed
from dwcl.data.frames import is_frame, row_names
from dwcl.data.multiview import MultiView, as_multiview, is_sequence_of_tables
from dwcl.data.profiles import Profiles
from dwcl.errors import DataError

_TABLE_CHECKS: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": "numeric",
    "ensure_all_finite": False,  # our own check names the column
}


def training_views(estimator: Any, X: Any) -> MultiView:
    """Turn training data into views; a single table goes through scikit-learn's checks."""
    if _is_single_table(X):
        table = validate_data(estimator, X, ensure_min_samples=2, **_TABLE_CHECKS)
        columns = {}
        if hasattr(estimator, "feature_names_in_"):
            columns = {"view1": tuple(estimator.feature_names_in_)}
        return replace(_named(table, X, "view1"), columns=columns)
    data = as_multiview(X)
    estimator.n_features_in_ = sum(data.widths)
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    return data


def matching_views(estimator: Any, X: Any) -> MultiView:
    """Turn samples for a fitted estimator into its views, with its columns in its order."""
    names: tuple[str, ...] = estimator.view_names_
    if _is_single_table(X) and len(names) == 1:
        # Scikit-learn compares the names of the columns with those of the fit.
        table = validate_data(estimator, X, reset=False, **_TABLE_CHECKS)
        return _named(table, X, names[0])
    data = as_multiview(X)
    _refuse_lost_samples(X, data)
    if is_sequence_of_tables(X) and data.n_views == len(names):
        # A list has no names: its views are those of the fit, by position.
        columns = {
            new: data.columns[old]
            for old, new in zip(data.names, names, strict=True)
            if old in data.columns
        }
        views = dict(zip(names, data.arrays, strict=True))
        data = MultiView(views, sample_ids=data.sample_ids, columns=columns)
    return _with_columns_of_the_fit(data, estimator.view_columns_)


def check_size(data: MultiView, n_clusters: int) -> None:
    """Refuse fewer samples than clusters, and a single one."""
    if data.n_samples < 2:
        raise DataError(
            "The data have 1 sample (n_samples=1); clustering needs at least 2, and as many "
            "samples as clusters."
        )
    if n_clusters > data.n_samples:
        raise DataError(
            f"n_clusters is {n_clusters}, but the data have {data.n_samples} samples; "
            "choose at most as many clusters as there are samples."
        )


def check_missing(
    estimator: Any, data: MultiView, profiles: Profiles, *, training: bool
) -> NDArray[np.bool_]:
    """Tell which samples have which views (n × V), and refuse gaps that the method cannot take."""
    observed = np.column_stack([profiles[name].observed for name in data.names])
    check_observed(data, observed, training=training)
    if estimator.accepts_missing or observed.all():
        return observed
    from dwcl.methods.registry import methods

    view = int(observed.all(axis=0).argmin())
    lost = np.flatnonzero(~observed[:, view])
    (first,) = data.sample_ids[lost[:1]].tolist()
    others = ", ".join(name for name, method in methods().items() if method.accepts_missing)
    raise DataError(
        f"{len(lost)} of {data.n_samples} samples lack view '{data.names[view]}' (rows of NaN), "
        f"the first is {first!r}, and the method '{estimator.method_name}' needs every view of "
        f"every sample. Leave these samples out, or take a method that accepts missing views: "
        f"{others or 'none here does'}."
    )


def _named(table: Any, given: Any, name: str) -> MultiView:
    """Make a single view of a table, samples named by the index if it came as a data frame."""
    ids = row_names(given) if is_frame(given) else None
    return MultiView({name: table}) if ids is None else MultiView({name: table}, sample_ids=ids)


def _with_columns_of_the_fit(data: MultiView, known: Mapping[str, Sequence[str]]) -> MultiView:
    """Put named columns into the order of the fit; tables without names are taken as they are."""
    views = dict(data.views)
    columns = dict(data.columns)
    for name, expected in known.items():
        given = data.columns.get(name)
        if given is None or list(given) == list(expected):
            continue
        missing = [column for column in expected if column not in given]
        extra = [column for column in given if column not in expected]
        if missing or extra or len(set(expected)) < len(expected):
            raise DataError(
                f"View '{name}' has other columns than in the fit: {_listed('missing', missing)}; "
                f"{_listed('unknown', extra)}. Give the same columns, in any order."
            )
        order = [given.index(column) for column in expected]
        views[name] = views[name][:, np.asarray(order)]
        columns[name] = tuple(expected)
    return replace(data, views=views, columns=columns)


def _refuse_lost_samples(X: Any, data: MultiView) -> None:
    """Refuse samples that a view lacks: to leave them out would shift the clusters of the rest."""
    tables = X.values() if isinstance(X, Mapping) else X
    if isinstance(X, MultiView) or not any(is_frame(table) for table in tables):
        return
    longest = max(len(table) for table in tables)
    if data.n_samples < longest:
        raise DataError(
            f"Of {longest} samples only {data.n_samples} are in every view. Leave the others out "
            "of all tables first, so that it is clear which sample each cluster belongs to."
        )


def _listed(what: str, names: Sequence[str], shown: int = 3) -> str:
    if not names:
        return f"none {what}"
    more = ", …" if len(names) > shown else ""
    return f"{what} {', '.join(map(repr, names[:shown]))}{more}"


def _is_single_table(X: Any) -> bool:
    """Tell one table (also a data frame, or rows as lists) from several views."""
    if sp.issparse(X) or is_frame(X):
        return True
    if X is None or isinstance(X, str | bytes) or hasattr(X, "__fspath__"):
        return False  # what these are is better said by the container
    return not isinstance(X, MultiView | Mapping) and not is_sequence_of_tables(X)
