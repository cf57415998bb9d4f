"""Fits of data that are read by batches: every way in leads to the same result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from dwcl import DWCL, Checkpoints, MultiView, make_multiview
from dwcl.data.ondisk import DiskTable
from dwcl.data.scaling import Scaling
from dwcl.errors import DataError
from dwcl.evaluate.scores import score
from dwcl.methods import base
from dwcl.methods.sources import make_source
from dwcl.training import InMemory, Streamed
from dwcl.training.callbacks import Callback, Record
from dwcl.training.memory import MemoryPlan

N = 400
TIGHT = 1e-5
"""GB: nothing of the data below fits into it."""


@pytest.fixture
def data() -> MultiView:
    return make_multiview(N, 3, widths=(12, 9), noise=0.1, random_state=0)


def maps(data: MultiView, folder: Path) -> dict[str, np.ndarray]:
    for name, view in data.views.items():
        np.save(folder / f"{name}.npy", view)
    return {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in data.names}


def test_the_plan_decides_where_batches_come_from(data: MultiView) -> None:
    scaling = Scaling.fit(data)
    for budget, kind in ((1.0, InMemory), (TIGHT, Streamed)):
        plan = MemoryPlan.of(N, data.widths, budget)
        source = make_source(data, scaling, plan, torch.device("cpu"))
        assert isinstance(source, kind)
        blocks = [torch.cat([x.clone() for x in xs], dim=1) for xs in source.blocks(150)]
        assert torch.equal(torch.cat(blocks), torch.from_numpy(np.hstack(scaling.transform(data))))


@pytest.mark.parametrize("kind", ["arrays", "maps", "hdf5", "sparse", "float64 frames"])
def test_streamed_data_give_one_result_wherever_they_lie(
    data: MultiView, small: dict[str, Any], tmp_path: Path, kind: str
) -> None:
    def of(given: Any) -> DWCL:
        return DWCL(3, **small, memory_budget=TIGHT, random_state=0).fit(given)

    expected = of(data)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name, view in data.views.items():
            file[name] = view
        found = of(_as_kind(kind, data, tmp_path, file))
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(found.cluster_centers_, expected.cluster_centers_)
    assert [r for r in found.history_ if r["event"] == "assessment"] == [
        r for r in expected.history_ if r["event"] == "assessment"
    ]
    assert found.embedding_ is None
    assert score(data.labels, found.labels_)["acc"] > 0.9


def _as_kind(kind: str, data: MultiView, folder: Path, file: h5py.File) -> Any:
    import pandas as pd
    import scipy.sparse as sp

    ways: dict[str, Callable[[], Any]] = {
        "arrays": lambda: dict(data.views),
        "maps": lambda: maps(data, folder),
        "hdf5": lambda: {name: file[name] for name in data.names},
        "sparse": lambda: {name: sp.csr_array(view) for name, view in data.views.items()},
        "float64 frames": lambda: {n: pd.DataFrame(view) for n, view in data.views.items()},
    }
    return ways[kind]()


def test_half_precision_and_bytes_are_converted_as_they_are_read(
    data: MultiView, small: dict[str, Any], tmp_path: Path
) -> None:
    a, b = (np.round(20 * (x - x.min())) for x in data.arrays)
    kinds = {"view1": a.astype(np.uint8), "view2": b.astype(np.float16)}
    same = {"view1": kinds["view1"].astype(float), "view2": kinds["view2"].astype(float)}
    mapped = maps(MultiView(kinds), tmp_path)
    assert mapped["view1"].dtype == np.uint8
    found, expected = (
        DWCL(3, **small, memory_budget=TIGHT, random_state=0).fit(x) for x in (mapped, same)
    )
    np.testing.assert_array_equal(found.cluster_centers_, expected.cluster_centers_)


def test_the_budget_decides_the_order_of_learning_and_nothing_free_does(
    data: MultiView, small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def centres(budget: float) -> np.ndarray:
        return DWCL(3, **small, memory_budget=budget, random_state=0).fit(data).cluster_centers_

    in_memory, streamed = centres(2.0), centres(TIGHT)
    assert not np.allclose(in_memory, streamed, atol=1e-5)
    monkeypatch.setattr(base, "free_memory", lambda: 10**9)
    np.testing.assert_array_equal(centres(2.0), in_memory)


def test_a_streamed_fit_is_as_good_as_one_in_memory(small: dict[str, Any]) -> None:
    for seed in range(3):
        data = make_multiview(N, 3, widths=(12, 9), noise=0.1, random_state=seed)
        for budget in (TIGHT, 2.0):
            model = DWCL(3, **small, memory_budget=budget, random_state=seed).fit(data)
            assert score(data.labels, model.labels_)["acc"] > 0.9


def test_prediction_is_the_same_in_memory_and_streamed(
    data: MultiView, small: dict[str, Any], tmp_path: Path
) -> None:
    model = DWCL(3, **small, random_state=0).fit(data)
    mapped = maps(data, tmp_path)
    assert model.embedding_ is not None
    for budget in (TIGHT, 2.0):
        model.memory_budget = budget
        np.testing.assert_array_equal(model.predict(mapped), model.labels_)
        np.testing.assert_array_equal(model.transform(mapped), model.embedding_)
        part = data.take(np.arange(7, 300))
        np.testing.assert_array_equal(model.transform(part), model.embedding_[7:300])


class StopAt(Callback):
    def __init__(self, phase: str, epoch: int) -> None:
        self.at = (phase, epoch)

    def on_record(self, record: Record) -> None:
        if (record.get("phase"), record.get("epoch")) == self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("at", [("pretrain", 3), ("contrast-2", 1)])
def test_a_streamed_fit_goes_on_after_an_interrupt(
    data: MultiView, small: dict[str, Any], tmp_path: Path, at: tuple[str, int]
) -> None:
    def model() -> DWCL:
        return DWCL(3, **small, memory_budget=TIGHT, random_state=0)

    mapped = maps(data, tmp_path)
    keep = Checkpoints(tmp_path / "kept", every=0)
    with pytest.raises(KeyboardInterrupt):
        model().fit(mapped, checkpoint=keep, callbacks=[StopAt(*at)])
    assert list((tmp_path / "kept").glob("checkpoint-*.json"))
    resumed = model().fit(mapped, checkpoint=keep)
    whole = model().fit(mapped)
    np.testing.assert_array_equal(resumed.cluster_centers_, whole.cluster_centers_)
    np.testing.assert_array_equal(resumed.labels_, whole.labels_)


def test_views_on_the_disk_are_not_loaded_by_a_streamed_fit(
    data: MultiView, small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loaded(self: DiskTable, *_: Any, **__: Any) -> np.ndarray:
        raise AssertionError(f"{self} was loaded as a whole")

    monkeypatch.setattr(DiskTable, "__array__", loaded)
    mapped = maps(data, tmp_path)
    model = DWCL(3, **small, memory_budget=TIGHT, random_state=0).fit(mapped)
    model.predict(mapped)


def test_a_fit_that_memory_cannot_hold_is_refused_before_it_starts(
    data: MultiView, small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "free_memory", lambda: 10_000)
    started: list[int] = []
    monkeypatch.setattr(base, "in_session", lambda *_: started.append(1))
    with pytest.raises(
        DataError, match=r"This fit takes about .* GB of memory.*memory_budget lower"
    ):
        DWCL(3, **small).fit(data)
    wide = {**small, "encoder": (10**6, 10**6)}
    monkeypatch.setattr(base, "free_memory", lambda: 10**10)
    with pytest.raises(DataError, match="networks smaller"):
        DWCL(3, **wide).fit(data)  # 10¹² weights: nothing of them may be made to find that out
    assert started == []
