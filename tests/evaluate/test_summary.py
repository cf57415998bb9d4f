"""Scores of a fitted model, held against scores computed by hand from its parts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dwcl import DWCL, make_multiview, score
from dwcl.evaluate.summary import score_model, score_views

TRUTH = np.array([0, 0, 0, 1, 1, 1])
RIGHT = np.array([2, 2, 2, 0, 0, 0])
HALF = np.array([0, 0, 1, 1, 0, 1])


class Blobs:
    """A model whose first view tells the classes and whose second tells nothing."""

    n_clusters = 2
    n_init = 3
    seed_ = 0
    view_names_ = ("good", "flat")
    feature_widths_ = (2, 2)
    labels_ = RIGHT

    def transform(self, X: Any) -> NDArray[np.float32]:
        good = np.column_stack([TRUTH * 10.0, np.zeros(6)]) + 0.01 * np.arange(6)[:, None]
        return np.hstack([good, np.ones((6, 2))]).astype(np.float32)

    def predict(self, X: Any) -> NDArray[np.int64]:
        return HALF


def assessed(*labels: NDArray[np.int64]) -> Any:
    return SimpleNamespace(names=("a", "b"), labels=torch.from_numpy(np.stack(labels)))


def test_the_clusters_the_views_of_each_iteration_and_the_yardsticks() -> None:
    model = Blobs()
    model.assessments_ = [assessed(HALF, RIGHT), assessed(RIGHT, HALF)]  # type: ignore[attr-defined]
    model.baseline_labels_ = {"bsv": HALF}  # type: ignore[attr-defined]
    scores = score_model(model, TRUTH)
    assert scores["clusters"] == score(TRUTH, RIGHT)
    assert scores["clusters"]["acc"] == 1
    assert scores["views"] == {"a": score(TRUTH, RIGHT), "b": score(TRUTH, HALF)}
    assert scores["views"]["b"]["acc"] == pytest.approx(4 / 6)
    assert scores["views_by_iteration"] == [
        {"a": score(TRUTH, HALF), "b": score(TRUTH, RIGHT)},
        scores["views"],
    ]
    assert scores["baselines"] == {"bsv": score(TRUTH, HALF)}


def test_a_method_without_assessments_has_the_clusters_only() -> None:
    assert set(score_model(Blobs(), TRUTH)) == {"clusters"}


def test_new_data_are_scored_by_prediction_and_view_by_view() -> None:
    scores = score_views(Blobs(), None, TRUTH)
    assert scores["clusters"] == score(TRUTH, HALF)
    assert scores["views"]["good"]["acc"] == 1
    assert scores["views"]["flat"]["acc"] == 0.5  # all alike: one cluster
    assert scores["views"]["flat"]["nmi"] == 0
    assert score_views(Blobs(), None, TRUTH) == scores


def test_a_real_model(small: dict[str, Any]) -> None:
    data = make_multiview(60, 3, widths=(5, 4), noise=0.05, random_state=0)
    model = DWCL(3, **small, random_state=0).fit(data)
    fitted, again = score_model(model, data.labels), score_views(model, data, data.labels)
    assert fitted["clusters"] == again["clusters"] == score(data.labels, model.labels_)
    assert set(fitted["views"]) == set(again["views"]) == {"view1", "view2"}
    assert len(fitted["views_by_iteration"]) == small["iterations"] + 1
    assert set(fitted["baselines"]) == {"bsv", "concat-ae"}
    assert fitted["clusters"]["acc"] > 0.9
