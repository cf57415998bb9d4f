"""Models on disk: they come back as they were, and damage is told from a good file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from safetensors.torch import load_file, save_file

from dwcl import DWCL, MultiView, load_model, make_multiview, save_model
from dwcl.errors import FileError, ModelError
from dwcl.storage.model import MODEL_FILE, TENSOR_FILE


@pytest.fixture
def data() -> MultiView:
    return make_multiview(50, 3, widths=(5, 4), noise=0.1, random_state=0)


@pytest.fixture
def saved(tmp_path: Path, data: MultiView, small: dict[str, Any]) -> Path:
    settings = small | {"scaling": {"view1": "standard", "view2": "row-l2"}}
    return save_model(DWCL(3, **settings, random_state=0).fit(data), tmp_path / "model")


def test_a_model_comes_back_as_it_was(
    tmp_path: Path, data: MultiView, small: dict[str, Any]
) -> None:
    model = DWCL(3, **small, random_state=np.int64(5)).fit(data)
    loaded = load_model(save_model(model, tmp_path / "new" / "folder"))
    assert type(loaded) is DWCL
    assert loaded.get_params() == model.get_params()
    assert_array_equal(loaded.transform(data), model.embedding_)
    assert_array_equal(loaded.predict(data), model.labels_)
    assert_array_equal(loaded.labels_, model.labels_)
    assert loaded.best_view_ == model.best_view_
    assert loaded.view_quality_ == model.view_quality_
    assert loaded.n_features_in_ == 9


def test_the_scaling_of_the_training_data_comes_with_it(saved: Path, data: MultiView) -> None:
    description = json.loads((saved / MODEL_FILE).read_text())
    assert [view["scaling"] for view in description["views"]] == ["standard", "row-l2"]
    alone = load_model(saved).transform(data.take([7]))
    assert_array_equal(alone, load_model(saved).transform(data)[[7]])


def test_the_same_model_gives_the_same_bytes(
    tmp_path: Path, data: MultiView, small: dict[str, Any]
) -> None:
    for name in ("one", "two"):
        save_model(DWCL(3, **small, random_state=1).fit(data), tmp_path / name)
    for file in (MODEL_FILE, TENSOR_FILE):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_a_generator_is_kept_as_the_seed_that_it_gave(
    tmp_path: Path, data: MultiView, small: dict[str, Any]
) -> None:
    model = DWCL(3, **small, random_state=np.random.default_rng(0)).fit(data)
    loaded = load_model(save_model(model, tmp_path / "m"))
    assert loaded.random_state == model.seed_
    assert_array_equal(loaded.fit(data).embedding_, model.embedding_)


def test_functions_of_the_user_are_named_and_not_loaded(
    tmp_path: Path, data: MultiView, small: dict[str, Any]
) -> None:
    def last(quality: Any, agreement: Any) -> int:
        return len(quality) - 1

    model = DWCL(3, **small, choose=last, random_state=0).fit(data)
    folder = save_model(model, tmp_path / "m")
    assert (
        "last" in json.loads((folder / MODEL_FILE).read_text())["settings"]["choose"]["<function>"]
    )
    loaded = load_model(folder)
    assert loaded.get_params()["choose"] == "quality"
    assert_array_equal(loaded.predict(data), model.labels_)


def _edit(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / MODEL_FILE
        description = json.loads(path.read_text())
        change(description)
        path.write_text(json.dumps(description))

    return apply


def _edit_tensors(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        tensors = load_file(folder / TENSOR_FILE)
        change(tensors)
        save_file(tensors, folder / TENSOR_FILE)

    return apply


def _cut(file: str, size: int) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        (folder / file).write_bytes((folder / file).read_bytes()[:size])

    return apply


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (_edit(lambda d: d.update(format=2)), "has format 2; this version .* reads format 1"),
        (_edit(lambda d: d.pop("format")), "not a model's description"),
        (_edit(lambda d: d.pop("views")), "damaged"),
        (_edit(lambda d: d["settings"].update(colour="red")), "damaged"),
        (_edit_tensors(lambda t: t.pop("centres")), "tensor 'centres' is missing"),
        (
            _edit_tensors(lambda t: t.update(centres=t["centres"][:2].clone())),
            r"'centres' has shape \[2, 16\] where \[3, 16\] is expected",
        ),
        (_cut(TENSOR_FILE, 100), "model.safetensors cannot be read"),
        (_cut(TENSOR_FILE, 0), "model.safetensors cannot be read"),
        (_cut(MODEL_FILE, 50), "not a model's description"),
        (lambda folder: (folder / TENSOR_FILE).unlink(), "model.safetensors is missing"),
        (lambda folder: (folder / MODEL_FILE).unlink(), "not a model folder"),
    ],
)
def test_a_harmed_model_is_refused_with_the_reason(
    saved: Path, harm: Callable[[Path], None], message: str
) -> None:
    harm(saved)
    with pytest.raises(ModelError, match=message):
        load_model(saved)


def test_a_place_that_cannot_be_written_is_refused(
    tmp_path: Path, data: MultiView, small: dict[str, Any]
) -> None:
    (tmp_path / "file").write_text("in the way")
    model = DWCL(3, **small).fit(data)
    with pytest.raises(FileError, match="Cannot make the folder"):
        save_model(model, tmp_path / "file" / "model")
