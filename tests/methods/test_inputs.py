"""What is handed to predict is brought to the views and columns of the fit, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from dwcl import DWCL, load_model, make_multiview, save_model
from dwcl.errors import DataError

IDS = [f"s{i}" for i in range(40)]
COLUMNS = {"rna": list("abcde"), "protein": list("xyz")}


@pytest.fixture
def frames() -> dict[str, pd.DataFrame]:
    data = make_multiview(40, 3, widths=(5, 3), noise=0.1, random_state=0)
    return {
        name: pd.DataFrame(view, index=IDS, columns=COLUMNS[name])
        for name, view in zip(COLUMNS, data.arrays, strict=True)
    }


@pytest.fixture
def model(frames: dict[str, pd.DataFrame], small: dict[str, Any]) -> DWCL:
    return DWCL(3, **small, random_state=0).fit(frames)


def test_columns_go_by_their_names(
    frames: dict[str, pd.DataFrame], model: DWCL, tmp_path: Path
) -> None:
    turned = {"protein": frames["protein"][list("zxy")], "rna": frames["rna"][list("edcba")]}
    for fitted in (model, load_model(save_model(model, tmp_path / "m"))):
        assert_array_equal(fitted.transform(turned), model.embedding_)
        assert_array_equal(fitted.transform(list(frames.values())), model.embedding_)
        assert_array_equal(
            fitted.transform([frame.to_numpy() for frame in frames.values()]), model.embedding_
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"c": "q"}, "View 'rna' has other columns than in the fit: missing 'c'; unknown 'q'"),
        ({"a": "b", "b": "b2"}, "missing 'a'; unknown 'b2'"),
    ],
)
def test_other_columns_are_refused(
    frames: dict[str, pd.DataFrame], model: DWCL, change: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        model.predict({**frames, "rna": frames["rna"].rename(columns=change)})


def test_samples_that_were_matched_are_known(
    frames: dict[str, pd.DataFrame], small: dict[str, Any]
) -> None:
    part = {"rna": frames["rna"].iloc[:30], "protein": frames["protein"].iloc[5:]}
    model = DWCL(3, **small, random_state=0).fit(part)
    assert model.sample_ids_.tolist() == IDS[5:30]
    assert len(model.labels_) == 25
    assert any("10" in note or "5" in note for note in model.notes_)
    with pytest.raises(DataError, match="Of 35 samples only 25 are in every view"):
        model.predict(part)


def test_a_clean_match_loses_nothing(frames: dict[str, pd.DataFrame], model: DWCL) -> None:
    shuffled = {**frames, "protein": frames["protein"].sample(frac=1, random_state=1)}
    assert_array_equal(model.predict(shuffled), model.labels_)
    assert np.array_equal(model.sample_ids_, IDS)


def test_a_single_named_table_keeps_its_columns(
    frames: dict[str, pd.DataFrame], small: dict[str, Any]
) -> None:
    model = DWCL(3, **small, random_state=0).fit(frames["rna"])
    assert model.view_columns_ == {"view1": tuple("abcde")}
    assert list(model.feature_names_in_) == list("abcde")
    model.fit(frames)  # several views have no one list of names
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("index", [IDS, range(40), IDS[:20] * 2])
def test_a_single_table_keeps_an_index_that_tells_its_rows_apart(
    frames: dict[str, pd.DataFrame], small: dict[str, Any], index: Any
) -> None:
    frame = frames["rna"].set_axis(index)
    found = DWCL(3, **small, random_state=0).fit(frame).sample_ids_
    assert list(found) == (IDS if index is IDS else list(range(40)))


@pytest.mark.parametrize(
    ("nothing", "message"),
    [
        ("file.csv", r"the name of a file, not data\. .*dwcl\.read\('file\.csv'\)"),
        (Path("file.csv"), r"the name of a file"),
        (None, "None came"),
        (b"", "expected"),
    ],
)
def test_what_is_no_table_is_told(nothing: Any, message: str, small: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=message):
        DWCL(3, **small).fit(nothing)
