"""A run that was broken off, wherever it was, goes on and ends in the same bytes."""

from __future__ import annotations

import functools
import json
import logging
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dwcl import DWCL, Checkpoints, MultiView, make_multiview, save_model
from dwcl.errors import FileError, ModelError, SettingError, TrainingError
from dwcl.methods.dwcl import reconstruct
from dwcl.training.callbacks import Callback, Record
from dwcl.training.loop import LossTerms, Trainer


class BrokenError(Exception):
    """Stands for a crash."""


class BreakAt(Callback):
    """Breaks a run at its n-th record."""

    def __init__(self, number: int) -> None:
        self.left = number

    def on_record(self, record: Record) -> None:
        self.left -= 1
        if self.left == 0:
            raise BrokenError


@pytest.fixture
def data() -> MultiView:
    return make_multiview(50, 3, widths=(5, 4), noise=0.1, random_state=0)


@pytest.fixture
def short(small: dict[str, Any]) -> dict[str, Any]:
    return small | {"pretrain_epochs": 3, "iterations": 2, "epochs": 2, "batch_size": 16}


def bytes_of(model: DWCL, folder: Path) -> bytes:
    save_model(model, folder)
    content = [(folder / name).read_bytes() for name in ("model.json", "model.safetensors")]
    return b"".join(content) + model.embedding_.tobytes()


def without_times(history: list[Record]) -> list[Record]:
    return [{k: v for k, v in record.items() if k != "seconds"} for record in history]


@pytest.mark.parametrize("reset", ["never", "phase", "epoch"])
@pytest.mark.parametrize("record", range(1, 11))
def test_broken_at_any_record(
    tmp_path: Path, data: MultiView, short: dict[str, Any], record: int, reset: str
) -> None:
    settings = short | {"optimiser_reset": reset, "random_state": 0}
    checkpoints = Checkpoints(tmp_path / "c", every=0)
    whole = DWCL(3, **settings).fit(data)
    model = DWCL(3, **settings)
    with pytest.raises(BrokenError):
        model.fit(data, callbacks=[BreakAt(record)], checkpoint=checkpoints)
    model.fit(data, checkpoint=checkpoints)
    assert bytes_of(model, tmp_path / "a") == bytes_of(whole, tmp_path / "b")
    assert without_times(model.history_) == without_times(whole.history_)
    assert np.array_equal(model.baseline_labels_["concat-ae"], whole.baseline_labels_["concat-ae"])


@pytest.mark.parametrize("step", [1, 3, 4, 6, 14, 17, 28])
def test_broken_between_any_two_steps(
    tmp_path: Path,
    data: MultiView,
    short: dict[str, Any],
    step: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four batches an epoch, seven epochs; a checkpoint after every step."""
    whole = DWCL(3, **short, random_state=0).fit(data)
    model = DWCL(3, **short, random_state=0)
    steps = [0]
    original = Trainer._step

    def counted(self: Trainer, *args: Any, **how: Any) -> None:
        steps[0] += 1
        if steps[0] == step:
            raise BrokenError
        original(self, *args, **how)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", counted)
        with pytest.raises(BrokenError):
            model.fit(data, checkpoint=Checkpoints(tmp_path / "c", every=0))
    done = [0]

    def counted_again(self: Trainer, *args: Any, **how: Any) -> None:
        done[0] += 1
        original(self, *args, **how)

    monkeypatch.setattr(Trainer, "_step", counted_again)
    model.fit(data, checkpoint=tmp_path / "c")
    assert done[0] == 28 - (step - 1)  # nothing is done twice, nothing is left out
    assert without_times(model.history_) == without_times(whole.history_)
    assert bytes_of(model, tmp_path / "a") == bytes_of(whole, tmp_path / "b")


def test_checkpoints_change_nothing_and_are_gone_at_the_end(
    tmp_path: Path, data: MultiView, short: dict[str, Any]
) -> None:
    plain = DWCL(3, **short, random_state=0).fit(data)
    kept = DWCL(3, **short, random_state=0).fit(
        data, checkpoint=Checkpoints(tmp_path / "c", every=0)
    )
    assert bytes_of(plain, tmp_path / "a") == bytes_of(kept, tmp_path / "b")
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["lock"]


def test_checkpoints_that_stay_make_a_repetition_immediate(
    tmp_path: Path, data: MultiView, short: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = DWCL(3, **short, random_state=0).fit(data, checkpoint=Checkpoints(tmp_path, keep=True))
    monkeypatch.delattr(Trainer, "_step")
    again = DWCL(3, **short, random_state=0).fit(data, checkpoint=tmp_path)
    assert np.array_equal(first.embedding_, again.embedding_)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_run_without_a_seed_goes_on_with_the_one_it_drew(
    tmp_path: Path, data: MultiView, short: dict[str, Any]
) -> None:
    model = DWCL(3, **short)
    with pytest.raises(BrokenError):
        model.fit(data, callbacks=[BreakAt(6)], checkpoint=tmp_path)
    resumed = model.fit(data, checkpoint=tmp_path)
    whole = DWCL(3, **short, random_state=resumed.seed_).fit(data)
    assert np.array_equal(resumed.embedding_, whole.embedding_)


def widest(quality: tuple[float, ...], agreement: Any) -> int:
    return 0


def test_a_function_is_known_by_its_name_and_its_code(
    tmp_path: Path, data: MultiView, short: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = DWCL(3, **short, choose=widest, random_state=0)
    with pytest.raises(BrokenError):
        model.fit(data, callbacks=[BreakAt(6)], checkpoint=tmp_path)

    def other(quality: tuple[float, ...], agreement: Any) -> int:
        return 1

    with monkeypatch.context() as patch:
        patch.setattr(widest, "__code__", other.__code__)
        with pytest.raises(ModelError, match="belong to another run: choose differ"):
            model.fit(data, checkpoint=tmp_path)
    model.fit(data, checkpoint=tmp_path)


@pytest.mark.parametrize("function", [lambda q, a: 0, functools.partial(widest)])
def test_a_function_that_cannot_be_recognised_is_refused(
    tmp_path: Path, data: MultiView, short: dict[str, Any], function: Any
) -> None:
    with pytest.raises(SettingError, match=r"choose is .* at the top level of a module"):
        DWCL(3, **short, choose=function).fit(data, checkpoint=tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_what_decides_the_bytes_is_part_of_a_run_s_identity(
    tmp_path: Path, data: MultiView, short: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BrokenError):
        DWCL(3, **short, random_state=0).fit(data, callbacks=[BreakAt(6)], checkpoint=tmp_path)
    other = short | {"threads": 2, "precision": "bf16"}
    monkeypatch.setattr("dwcl.__version__", "9.9")
    with pytest.raises(ModelError, match="dwcl, precision, threads differ"):
        DWCL(3, **other, random_state=0).fit(data, checkpoint=tmp_path)


@pytest.mark.parametrize("change", ["settings", "seed", "data"])
def test_another_run_does_not_go_on_from_it(
    tmp_path: Path, data: MultiView, short: dict[str, Any], change: str
) -> None:
    with pytest.raises(BrokenError):
        DWCL(3, **short, random_state=0).fit(data, callbacks=[BreakAt(6)], checkpoint=tmp_path)
    settings = short | {"random_state": 1 if change == "seed" else 0}
    settings |= {"temperature": 0.5} if change == "settings" else {}
    other = data.take(range(49)) if change == "data" else data
    with pytest.raises(ModelError, match="belong to another run"):
        DWCL(3, **settings).fit(other, checkpoint=tmp_path)


@pytest.fixture
def listening() -> Iterator[None]:
    """Hear interrupts, also in the background of a shell, where processes ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listening")
def test_an_interrupt_saves_and_is_raised_again(
    tmp_path: Path, data: MultiView, short: dict[str, Any]
) -> None:
    class Interrupt(Callback):
        def on_record(self, record: Record) -> None:
            if record["event"] == "epoch" and record["epoch"] == 2:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.5)  # the signal reaches the caller's thread while this one waits

    whole = DWCL(3, **short, random_state=0).fit(data)
    model = DWCL(3, **short, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(data, callbacks=[Interrupt()], checkpoint=tmp_path / "c")
    assert (tmp_path / "c" / "checkpoint-000001.json").exists()
    model.fit(data, checkpoint=tmp_path / "c")
    assert np.array_equal(model.embedding_, whole.embedding_)


def test_two_fits_in_one_folder_are_refused(
    tmp_path: Path, data: MultiView, short: dict[str, Any]
) -> None:
    class Second(Callback):
        def on_record(self, record: Record) -> None:
            DWCL(3, **short).fit(data, checkpoint=tmp_path)

    with pytest.raises(FileError, match="Another run"):
        DWCL(3, **short).fit(data, callbacks=[Second()], checkpoint=tmp_path)


def test_divergence_keeps_the_last_good_state(
    tmp_path: Path, data: MultiView, short: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something breaks in the second epoch's third batch of four, and is put right afterwards."""
    whole = DWCL(3, **short, random_state=0).fit(data)
    model = DWCL(3, **short, random_state=0)
    calls = [0]

    def break_down(*args: Any) -> LossTerms:
        calls[0] += 1
        terms = reconstruct(*args)
        if calls[0] < 7:
            return terms
        by_view = terms.parts["reconstruction"] * torch.tensor([1.0, math.nan])
        return LossTerms(by_view.sum(), {"reconstruction": by_view})

    match = r"became nan in phase 'pretrain', epoch 2, first seen in view 'view2'"
    with monkeypatch.context() as patch:
        patch.setattr("dwcl.methods.dwcl.reconstruct", break_down)
        with pytest.raises(TrainingError, match=match):
            model.fit(data, checkpoint=Checkpoints(tmp_path / "c", every=0))
    newest = max((tmp_path / "c").glob("*.json"))
    position = json.loads(newest.read_text("utf-8"))["plain"]["position"]
    assert (position["epochs_over"], position["steps_over"]) == (1, 2)
    model.fit(data, checkpoint=tmp_path / "c")
    assert bytes_of(model, tmp_path / "a") == bytes_of(whole, tmp_path / "b")


@pytest.mark.parametrize("rate", [10.0, 1e3, 1e30])
def test_a_rate_beyond_reason_stops_the_run(
    tmp_path: Path, data: MultiView, short: dict[str, Any], rate: float
) -> None:
    settings = short | {"learning_rate": rate, "encoder": (32, 32, 32), "pretrain_epochs": 1000}
    match = (
        r"The loss (became|exploded) .*in phase 'pretrain', epoch \d, first seen in view 'view1'"
    )
    with pytest.raises(TrainingError, match=match):
        DWCL(3, **settings, random_state=0).fit(data, checkpoint=tmp_path)


def test_a_damaged_checkpoint_is_said_and_the_run_still_ends_alike(
    tmp_path: Path, data: MultiView, short: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    whole = DWCL(3, **short, random_state=0).fit(data)
    model = DWCL(3, **short, random_state=0)
    folder = tmp_path / "c"
    with pytest.raises(BrokenError):
        model.fit(data, callbacks=[BreakAt(7)], checkpoint=Checkpoints(folder, every=0))
    newest = max(folder.glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-10])
    with caplog.at_level(logging.WARNING, "dwcl"):
        model.fit(data, checkpoint=folder)
    assert "is damaged" in caplog.text
    assert np.array_equal(model.embedding_, whole.embedding_)


PROGRAM = """
import sys
from dwcl import DWCL, Checkpoints, make_multiview, save_model
data = make_multiview(60, 3, widths=(5, 4), noise=0.1, random_state=0)
model = DWCL(3, encoder=(32, 32), latent=16, embedding=8, pretrain_epochs=60, iterations=2,
             epochs=60, batch_size=16, n_init=3, threads=1, random_state=0)
model.fit(data, checkpoint=Checkpoints(sys.argv[1], every=float(sys.argv[2])))
save_model(model, sys.argv[3])
"""


@pytest.mark.slow
def test_killed_at_twenty_random_moments(tmp_path: Path) -> None:
    def command(folder: str, out: str) -> list[str]:
        return [sys.executable, "-c", PROGRAM, str(tmp_path / folder), "0.05", str(tmp_path / out)]

    began = time.monotonic()
    subprocess.run(command("whole", "expected"), check=True)
    usual = time.monotonic() - began
    rng = random.Random(0)
    kills = 0
    for trial in range(20):
        folder, out = f"run{trial}", f"out{trial}"
        process = subprocess.Popen(command(folder, out))
        try:
            process.wait(rng.uniform(0.3, 1.0) * usual)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
        if not (tmp_path / out / "model.json").exists():
            subprocess.run(command(folder, out), check=True)
        for name in ("model.json", "model.safetensors"):
            expected = (tmp_path / "expected" / name).read_bytes()
            assert (tmp_path / out / name).read_bytes() == expected, trial
    assert kills >= 10
