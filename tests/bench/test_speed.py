"""The measurements run and add up; how fast anything is, is not a matter for tests."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from dwcl.bench.clustering import measure_kmeans, measure_silhouette
from dwcl.bench.report import Figure, SpeedReport, alternate
from dwcl.bench.speed import engine_epoch, exponent, measure_mechanisms
from dwcl.cli.app import app
from dwcl.nn import Precision
from dwcl.training.loop import Trainer


def test_runners_take_turns_after_a_warm_up() -> None:
    calls: list[str] = []
    runners = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    seconds = alternate(runners, rounds=2)
    assert calls == ["a", "b"] * 3
    assert seconds.keys() == {"a", "b"}
    assert all(value >= 0 for value in seconds.values())


def test_the_exponent_of_a_power_is_found() -> None:
    numbers = (2, 4, 8, 16)
    assert exponent(numbers, [0.3 * n**1.7 for n in numbers]) == pytest.approx(1.7)


def test_a_figure_knows_whether_its_target_is_reached() -> None:
    assert Figure("x", 1, 2, 2.0, "r", 1.5).reached is True
    assert Figure("x", 1, 2, 2.0, "r", 2.5).reached is False
    assert Figure("x", 1, 2, 2.0, "r").reached is None
    report = SpeedReport([Figure("x", 1, 2, 2.0, "r")], {"fact": 1.0}, {"threads": 1})
    assert json.loads(json.dumps(report.as_dict()))["figures"][0]["ratio"] == 2.0


def test_nothing_is_faster_than_its_floor() -> None:
    assert Figure("x", 1, 0.9, 0.9, "floor", 0.8).reached is True
    wrong = Figure("x", 0.001, 1, 1000.0, "floor", 0.8)  # nothing was done at all
    assert not wrong.plausible
    assert wrong.reached is False
    assert Figure("x", 0.001, 1, 1000.0, "naive loop", 0.8).plausible


@pytest.mark.parametrize("phase", ["pretrain", "contrast"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_every_call_trains_an_epoch(
    precision: Precision, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    original = Trainer._step

    def counted(self: Trainer, *args: Any, **how: Any) -> None:
        steps.append(len(args[1]))
        original(self, *args, **how)

    monkeypatch.setattr(Trainer, "_step", counted)
    with contextlib.ExitStack() as kept:
        run = engine_epoch([torch.rand(150, 4), torch.rand(150, 3)], precision, phase, kept)
        for _ in range(3):
            run()
    assert steps == [128, 22] * 3


def test_mechanisms_are_compared() -> None:
    figures, growth = measure_mechanisms(numbers=(2, 3), rounds=1, threads=1)
    assert len(figures) == 2
    assert math.isfinite(growth)


def test_clustering_is_compared() -> None:
    figures, inertia = measure_kmeans((300,), rounds=1, threads=1)
    assert figures[0].ratio == pytest.approx(figures[0].reference_seconds / figures[0].seconds)
    assert inertia <= 1.001
    assert measure_silhouette((300,), rounds=1, threads=1)[0].reference == "scikit-learn"


@pytest.mark.slow
def test_the_command_measures_and_prints_json() -> None:
    arguments = ["bench", "speed", "--short", "--rounds", "1", "--threads", "1"]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert {figure["reference"] for figure in report["figures"]} == {
        "naive loop", "floor", "pairwise", "scikit-learn",
    }  # fmt: skip
    assert report["circumstances"]["threads"] == 1
    shown = CliRunner().invoke(app, arguments)
    assert "best-other" in shown.stdout
