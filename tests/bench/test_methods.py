"""Methods are measured against plain versions of themselves; how fast is no matter for tests."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import dwcl.bench.methods
import dwcl.bench.plain
from dwcl.bench.methods import Turns, measure_methods, take_turns
from dwcl.bench.plain import PlainVersion, get_plain, in_plain_layers, plain_versions
from dwcl.cli.app import app
from dwcl.errors import SettingError
from dwcl.methods.registry import methods
from dwcl.nn import AutoEncoders, NormPerceptron, Perceptron, perceptron
from dwcl.streams import RandomStreams

TINY: dict[str, Any] = {
    "encoder": (6,), "latent": 5, "embedding": 3, "n_init": 1, "batch_size": 8, "n_clusters": 2,
}  # fmt: skip

NEW_VERSION = '''
"""A plain version that stands in for any new one."""

from dwcl.bench.plain import PlainVersion

ANY_NAME = PlainVersion("newcomer", {"learn": lambda *args: float}, lambda epochs: {})
'''


def test_one_new_file_is_all_that_a_plain_version_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "newcomer.py").write_text(NEW_VERSION)
    paths = [*dwcl.bench.plain.__path__, str(tmp_path)]
    monkeypatch.setattr(dwcl.bench.plain, "__path__", paths)
    plain_versions.cache_clear()
    try:
        assert set(plain_versions()) >= {"newcomer", "sem"}
        assert get_plain("newcomer").phases.keys() == {"learn"}
    finally:
        plain_versions.cache_clear()
        sys.modules.pop("dwcl.bench.plain.newcomer", None)


def test_every_plain_version_is_that_of_a_method() -> None:
    assert "sem" in plain_versions()
    assert set(plain_versions()) <= set(methods())


def test_an_unknown_one_is_answered_with_the_nearest() -> None:
    with pytest.raises(SettingError, match=r"no plain version of a method 'sen'. Did you mean"):
        get_plain("sen")


def test_each_plain_epoch_follows_on_one_of_the_fit() -> None:
    """Sixteen samples in two batches; the plain epochs stand in for any."""
    calls: list[tuple[tuple[int, ...], bool, int]] = []

    def make(model: Any, networks: nn.Module, views: Sequence[Tensor]) -> Any:
        chains = [m for m in networks.modules() if isinstance(m, Perceptron)]
        sizes = tuple(len(view) for view in views)

        def epoch() -> float:
            calls.append((sizes, not chains, torch.get_num_threads()))
            return float(len(calls))

        return epoch

    def schedule(epochs: int) -> dict[str, Any]:
        return {"pretrain_epochs": epochs, "iterations": 1, "epochs": epochs}

    plain = PlainVersion("sem", {"pretrain": make, "contrast-1": make}, schedule)
    usual = torch.get_num_threads()
    settings = TINY | {"threads": usual + 1}
    turns = take_turns(plain, 16, (4, 3), epochs=3, settings=settings)
    assert calls == [((16, 16), True, usual + 1)] * 6
    assert [theirs for _, theirs in turns.losses["pretrain"]] == [1, 2, 3]
    assert [theirs for _, theirs in turns.losses["contrast-1"]] == [4, 5, 6]
    assert all(ours > 0 < theirs for pairs in turns.seconds.values() for ours, theirs in pairs)


def test_the_median_leaves_the_first_epoch_out() -> None:
    turns = Turns(10, {"learn": lambda: 0.0})
    turns.seconds["learn"] = [(100.0, 100.0), (1.0, 8.0), (3.0, 4.0), (2.0, 6.0)]
    assert turns.medians("learn") == (2.0, 6.0)
    turns.on_record({"event": "epoch", "phase": "other", "seconds": 1.0, "loss": 1.0})
    turns.on_record({"event": "weights", "iteration": 0})
    assert len(turns.seconds["learn"]) == 4


@pytest.mark.parametrize(("native", "numbers"), [("fp32", ["fp32"]), ("bf16", ["fp32", "bf16"])])
def test_figures_are_ratios_scaled_to_the_whole_data_set(
    native: str, numbers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dwcl.bench.methods, "resolve_precision", lambda *args: native)
    asked = []

    def turns(plain: Any, n: int, widths: Any, *, epochs: int, settings: Any) -> Turns:
        asked.append((plain.method, epochs, settings["precision"], settings["threads"]))
        found = Turns(50, dict.fromkeys(plain.phases, lambda: 0.0))
        found.seconds = {phase: [(9.0, 9.0), (0.5, 1.5)] for phase in plain.phases}
        return found

    monkeypatch.setattr(dwcl.bench.methods, "take_turns", turns)
    figures = measure_methods(["sem"], "a shape", 200, (4, 3), rounds=1, threads=1)
    assert asked == [("sem", 2, precision, 1) for precision in numbers]
    assert [figure.what for figure in figures] == [
        f"contrast-1 epoch of sem, a shape, {precision}" for precision in numbers
    ]
    for figure in figures:
        assert (figure.seconds, figure.reference_seconds, figure.ratio) == (2.0, 6.0, 3.0)
        assert figure.reference == "plain eager"
        assert figure.reached is True


def test_a_method_is_measured() -> None:
    figures = measure_methods(
        ["sem"], "tiny", 40, (4, 3), rounds=2, threads=1, settings=TINY | {"learning_rate": 1e-3}
    )
    assert figures
    for figure in figures:
        assert figure.ratio == pytest.approx(figure.reference_seconds / figure.seconds)


def test_plain_layers_compute_the_same_from_the_same_values() -> None:
    generator = RandomStreams(0).torch("networks")
    x = torch.rand(9, 4, generator=generator)
    views = AutoEncoders((4,), encoder=(6,), latent=5, decoder=(6,), generators=[generator])
    chain = perceptron((4, 3), generator)
    normed = NormPerceptron((4, 7, 2), generator, plain_end=True)
    made = nn.ModuleDict({"views": views, "normed": normed})
    plain = in_plain_layers(made)
    assert isinstance(plain, nn.ModuleDict)
    assert any(isinstance(module, Perceptron) for module in made.modules())
    assert not any(isinstance(module, Perceptron) for module in plain.modules())
    assert plain.state_dict().keys() == made.state_dict().keys()
    torch.testing.assert_close(plain["views"].encode([x]), views.encode([x]))
    torch.testing.assert_close(plain["normed"](x), normed(x))
    alone = in_plain_layers(chain)
    assert type(alone) is nn.Sequential
    torch.testing.assert_close(alone(x), chain(x))
    with torch.no_grad():
        next(plain.parameters()).zero_()
    assert next(made.parameters()).any()  # a copy, not the same parameters


def test_the_command_measures_what_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measured(methods: Sequence[str], name: str, n: int, widths: Any, **how: Any) -> list[Any]:
        asked.append((methods, name, n, len(widths), how))
        return [dwcl.bench.methods.Figure("an epoch", 1.0, 3.0, 3.0, "plain eager", 1.0)]

    monkeypatch.setattr(dwcl.bench.methods, "measure_methods", measured)
    run = CliRunner().invoke
    shown = run(app, ["bench", "methods", "sem", "--short", "--rounds", "2", "--threads", "1"])
    assert shown.exit_code == 0
    assert "reached" in shown.stdout
    assert asked == [(["sem"], "Scene_15", 4485, 2, {"rounds": 2, "threads": 1})]
    asked.clear()
    every = run(app, ["bench", "methods", "--json"])
    report = json.loads(every.stdout)
    assert {name for (name,), *_ in asked} == set(plain_versions())
    assert len(report["figures"]) == 2 * len(plain_versions())
    wrong = run(app, ["bench", "methods", "dwcl2"])
    assert wrong.exit_code != 0


@pytest.mark.slow
def test_the_command_measures() -> None:
    arguments = ["bench", "methods", "sem", "--short", "--rounds", "1", "--threads", "1", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    figures = json.loads(result.stdout)["figures"]
    assert {figure["reference"] for figure in figures} == {"plain eager"}
