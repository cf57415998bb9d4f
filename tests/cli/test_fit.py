"""``dwcl fit``: what it writes, what it says, and what decides the result."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from dwcl import MultiView, load_model
from dwcl.cli.fit import _stem, count_clusters, free_folder, gather_settings, recipe_notes
from dwcl.data.writers import write_npz
from dwcl.errors import DataError, FileError, SettingError, TrainingError
from dwcl.methods.dwcl import DWCL
from dwcl.training.loop import Trainer

Command = Callable[..., Any]


def test_a_fit_writes_a_run_folder_and_says_what_it_did(
    dwcl: Command, file: Path, small_options: list[str]
) -> None:
    done = dwcl("fit", file, "-k", 3, "--seed", 7, "--out", "run", *small_options)
    assert done.exit_code == 0
    assert sorted(path.name for path in Path("run").iterdir()) == [
        "history.jsonl", "labels.csv", "model.json", "model.safetensors", "run.json",
    ]  # fmt: skip
    assert "views: view1, view2, 6 + 5 features" in done.stderr
    assert "labels: 3 values" in done.stderr
    assert "pretrain: epoch 1, loss" in done.stderr
    assert "after iteration 1: best view" in done.stderr
    for word in ("DWCL, 3 clusters", "quality", "weight", "ACC", "all views", "BSV", "Concat-AE"):
        assert word in done.stdout
    assert "labels in run/labels.csv" in done.stdout

    facts = json.loads(Path("run/run.json").read_text())
    assert facts["seed"] == facts["settings"]["random_state"] == 7
    assert facts["settings"]["encoder"] == [16]
    assert facts["recipe"] is None
    assert facts["seconds_total"] > 0
    assert set(facts["scores"]) == {"clusters", "views", "views_by_iteration", "baselines"}

    rows = list(csv.DictReader(Path("run/labels.csv").read_text().splitlines()))
    model = load_model("run")
    assert [row["sample"] for row in rows] == [f"s{i}" for i in range(40)]
    assert [int(row["cluster"]) for row in rows] == model.labels_.tolist()
    assert all(float(row["distance"]) <= float(row["next_distance"]) for row in rows)
    assert np.bincount(model.labels_).tolist() == facts["cluster_sizes"]
    assert f"sizes of the clusters: {', '.join(map(str, facts['cluster_sizes']))}" in done.stdout


def test_without_labels_there_are_no_scores(
    dwcl: Command, data: MultiView, place: Path, small_options: list[str]
) -> None:
    write_npz(data.with_labels(None), place / "bare.npz")
    done = dwcl("fit", "bare.npz", "-k", 2, *small_options)
    assert done.exit_code == 0
    assert "ACC" not in done.stdout
    assert "BSV" not in done.stdout
    assert "all views" in done.stdout
    facts = json.loads(Path("runs/bare/run.json").read_text())
    assert "scores" not in facts
    assert facts["data"]["label_values"] is None


def test_labels_that_cannot_be_scored_do_not_spoil_the_fit(
    dwcl: Command, data: MultiView, place: Path, small_options: list[str]
) -> None:
    labels = np.array(data.labels, dtype=float)
    labels[3] = np.nan
    write_npz(data.with_labels(labels), place / "gap.npz")
    done = dwcl("fit", "gap.npz", "-k", 3, *small_options)
    assert done.exit_code == 0
    assert "note: no scores: Some labels are missing" in done.stdout
    facts = json.loads(Path("runs/gap/run.json").read_text())
    assert "scores" not in facts
    assert dwcl("evaluate", "runs/gap", "gap.npz").exit_code == 2


def test_labels_have_no_part_in_the_result(
    dwcl: Command, data: MultiView, file: Path, place: Path, small_options: list[str]
) -> None:
    write_npz(data.with_labels(None), place / "bare.npz")
    for name in ("data", "bare"):
        assert dwcl("fit", f"{name}.npz", "-k", 3, *small_options).exit_code == 0
    for name in ("labels.csv", "model.safetensors"):
        assert Path("runs/data", name).read_bytes() == Path("runs/bare", name).read_bytes()


# -- output ------------------------------------------------------------------------------------


def test_json_is_one_object_and_nothing_else(
    dwcl: Command, file: Path, small_options: list[str]
) -> None:
    done = dwcl("fit", file, "-k", 3, "--json", *small_options)
    assert done.exit_code == 0
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    facts = json.loads(done.stdout)
    assert facts.pop("run") == "runs/data"
    assert facts == json.loads(Path("runs/data/run.json").read_text())


def test_quiet_is_quiet(dwcl: Command, file: Path, small_options: list[str]) -> None:
    done = dwcl("fit", file, "-k", 3, "-q", *small_options)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert Path("runs/data/labels.csv").is_file()


def test_notes_on_the_data_are_shown(
    dwcl: Command, data: MultiView, place: Path, small_options: list[str]
) -> None:
    constant = data["view2"].copy()
    constant[:, 1] = 3.0
    write_npz(MultiView({"view1": data["view1"], "view2": constant}), place / "flat.npz")
    done = dwcl("fit", "flat.npz", "-k", 3, *small_options)
    assert done.exit_code == 0
    assert "note: " in done.stdout
    assert "view2" in done.stdout.partition("note: ")[2]


def test_names_with_brackets_are_shown_as_they_are(
    dwcl: Command, data: MultiView, place: Path, small_options: list[str]
) -> None:
    write_npz(
        MultiView({"rna[log]": data["view1"], "[red]": data["view2"]}, labels=data.labels),
        place / "odd.npz",
    )
    out = "out[bold]"
    done = dwcl("fit", "odd.npz", "-k", 3, "--out", out, *small_options)
    for text in (done.stdout, done.stderr, dwcl("show", out).stdout):
        assert "rna[log]" in text
    assert "[red]" in done.stdout
    assert f"labels in {out}/labels.csv" in done.stdout
    assert "rna[log]" in dwcl("evaluate", out, "odd.npz").stdout
    assert "rna[log]" in dwcl("data", "show", "odd.npz").stdout


# -- where it goes -----------------------------------------------------------------------------


def test_runs_are_named_after_the_data_and_counted(
    dwcl: Command, file: Path, small_options: list[str]
) -> None:
    for _ in range(3):
        assert dwcl("fit", file, "-k", 2, "-q", *small_options).exit_code == 0
    assert sorted(path.name for path in Path("runs").iterdir()) == ["data", "data-2", "data-3"]


@pytest.mark.parametrize(
    ("named", "stem"),
    [
        ("a/b/Scene_15.mat", "Scene_15"),
        ("counts.csv.gz", "counts"),
        ("catalogue:hw", "hw"),
        ("folder/", "folder"),
        (".", "run"),
        ("..", "run"),
    ],
)
def test_the_stem_of_a_run(named: str, stem: str) -> None:
    assert free_folder(Path("runs"), _stem(named)) == Path("runs", stem)


def test_a_run_is_replaced_only_when_asked(
    dwcl: Command, file: Path, small_options: list[str]
) -> None:
    fit = ("fit", file, "--out", "run", "-q", *small_options)
    assert dwcl(*fit, "-k", 2).exit_code == 0
    before = Path("run/run.json").read_bytes()
    assert dwcl(*fit, "-k", 3).exit_code == 2
    assert Path("run/run.json").read_bytes() == before
    assert dwcl(*fit, "-k", 3, "--force").exit_code == 0
    assert json.loads(Path("run/run.json").read_text())["n_clusters"] == 3
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []


# -- what decides ------------------------------------------------------------------------------


def test_the_seed_decides_the_bytes(dwcl: Command, file: Path, small_options: list[str]) -> None:
    for name, seed in (("one", 3), ("two", 3), ("other", 4)):
        options = ("-k", 3, "--seed", seed, "--out", name, "-q")
        assert dwcl("fit", file, *options, *small_options).exit_code == 0
    for name in ("labels.csv", "model.safetensors"):
        one, two, other = (Path(run, name).read_bytes() for run in ("one", "two", "other"))
        assert one == two
        assert one != other


def test_single_settings_are_stronger_than_a_recipe() -> None:
    settings = gather_settings("dwcl", "quick", ["epochs=2", "encoder=8,4"], 5)
    assert settings == {
        "random_state": 5,
        "pretrain_epochs": 30,
        "iterations": 2,
        "epochs": 2,
        "encoder": (8, 4),
    }
    assert gather_settings("dwcl", None, [], 0) == {"random_state": 0}


def test_the_run_states_recipe_and_settings(
    dwcl: Command, file: Path, small_options: list[str]
) -> None:
    pairs = zip(small_options[::2], small_options[1::2], strict=True)
    options = [part for pair in pairs if pair[1] != "iterations=1" for part in pair]
    done = dwcl("fit", file, "-k", 3, "--recipe", "quick", "--json", *options)
    facts = json.loads(done.stdout)
    assert facts["recipe"] == "quick"
    assert facts["settings"]["iterations"] == 2  # of the recipe
    assert facts["settings"]["epochs"] == 2  # given, against the recipe's 15
    assert facts["settings"]["temperature"] == 1.0  # of the method


@pytest.mark.parametrize(
    ("setting", "option"), [("n_clusters=3", "--clusters"), ("random_state=1", "--seed")]
)
def test_settings_with_an_option_are_not_set(setting: str, option: str) -> None:
    with pytest.raises(SettingError, match=f"not set with --set; give it with {option}"):
        gather_settings("dwcl", None, [setting], 0)


# -- the number of clusters --------------------------------------------------------------------


def test_as_many_clusters_as_label_values_where_that_is_wanted(
    dwcl: Command, file: Path, small_options: list[str]
) -> None:
    done = dwcl("fit", file, "--clusters", "labels", "--json", *small_options)
    assert json.loads(done.stdout)["n_clusters"] == 3


def test_the_number_is_never_taken_from_labels_unasked(dwcl: Command, file: Path) -> None:
    done = dwcl("fit", file)
    assert done.exit_code == 2
    assert "--clusters" in done.stderr
    assert not Path("runs").exists()


def test_counting_clusters(data: MultiView) -> None:
    assert count_clusters("12", data) == 12
    assert count_clusters("labels", data) == 3
    with pytest.raises(DataError, match="needs labels, and these data have none"):
        count_clusters("labels", data.with_labels(None))
    with pytest.raises(DataError, match="one label value only"):
        count_clusters("labels", data.with_labels(np.zeros(40)))
    for wanted in ("0", "1", "-3", "2.5", "two", "", "²"):
        with pytest.raises(SettingError, match="a whole number from 2"):
            count_clusters(wanted, data)


# -- what of the data --------------------------------------------------------------------------


def test_views_labels_and_orientation_can_be_stated(
    dwcl: Command, data: MultiView, place: Path, small_options: list[str]
) -> None:
    first, second = (np.asarray(view) for view in data.arrays)
    scipy.io.savemat(place / "m.mat", {"A": first.T, "B": second.T, "extra": second.T})
    lines = "".join(f"{value}\n" for value in np.asarray(data.labels).tolist())
    (place / "classes.csv").write_text(lines)
    done = dwcl(
        "fit", "m.mat", "-k", 3, "--views", "B, A", "--transpose", "--labels", "classes.csv",
        "--json", *small_options,
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert list(facts["data"]["views"].items()) == [("B", 5), ("A", 6)]
    assert facts["data"]["n_samples"] == 40
    assert facts["data"]["label_values"] == 3
    assert "scores" in facts


def test_the_column_of_ids_can_be_stated(
    dwcl: Command, data: MultiView, place: Path, small_options: list[str]
) -> None:
    rows = np.column_stack([np.arange(500, 540), *data.arrays])
    header = ",".join(["number", *(f"a_{i}" for i in range(6)), *(f"b_{i}" for i in range(5))])
    np.savetxt(place / "in.csv", rows, delimiter=",", header=header, comments="", fmt="%.6g")
    done = dwcl("fit", "in.csv", "-k", 3, "--id-column", "number", "-q", *small_options)
    assert done.exit_code == 0, done.stderr
    lines = Path("runs/in/labels.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == [str(i) for i in range(500, 540)]


def test_a_fit_that_is_broken_off_writes_nothing(
    dwcl: Command, file: Path, small_options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(DWCL, "_learn", interrupted)
    done = dwcl("fit", file, "-k", 3, "-q", *small_options)
    assert done.exit_code == 130
    assert done.stderr == "dwcl: Interrupted before there was anything to save.\n"
    assert [path.name for path in Path().iterdir()] == ["data.npz"]


def test_a_recipe_for_other_data_is_remarked_on(data: MultiView) -> None:
    fitting = MultiView({"a": np.zeros((9, 59)), "b": np.zeros((9, 20)), "c": np.zeros((9, 40))})
    assert recipe_notes("dwcl", "scene", fitting, 15) == []  # the order of the views is free
    assert recipe_notes("dwcl", None, data, 3) == recipe_notes("dwcl", "quick", data, 3) == []
    widths, clusters = recipe_notes("dwcl", "scene", data, 3)
    assert widths == (
        "the recipe 'scene' was made for views of 20, 59, 40 features; these have 6, 5"
    )
    assert clusters == "the recipe 'scene' was made for 15 clusters; 3 were asked for"


def test_the_remark_is_shown_and_kept(dwcl: Command, file: Path, small_options: list[str]) -> None:
    done = dwcl("fit", file, "-k", 3, "--recipe", "dha", "--out", "run", *small_options)
    remark = "the recipe 'dha' was made for 23 clusters; 3 were asked for"
    assert f"note: {remark}" in done.stdout
    assert remark in json.loads(Path("run/run.json").read_text())["notes"]


def test_a_run_that_cannot_be_written_costs_no_training(
    dwcl: Command, file: Path, small_options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise FileError("Cannot write run: No space left on device.")

    with monkeypatch.context() as patch:
        patch.setattr("dwcl.storage.run.write_run", full)
        done = dwcl("fit", file, "-k", 3, "--out", "run", "-q", *small_options)
    assert done.exit_code == 2
    assert "No space left" in done.stderr
    assert "kept in run.unfinished, up to its last checkpoint. Once the place is" in done.stderr
    assert "free, dwcl resume run writes" in done.stderr
    monkeypatch.delattr(Trainer, "_step")  # nothing is trained again
    assert dwcl("resume", "run", "-q").exit_code == 0
    assert Path("run/labels.csv").is_file()
    assert not Path("run.unfinished").exists()


def test_a_disk_that_fills_up_costs_no_training(
    dwcl: Command,
    file: Path,
    small_options: list[str],
    no_room: Callable[[int], AbstractContextManager[None]],
) -> None:
    """The job fits and is noted; networks do not, neither in checkpoints nor in the run folder."""
    arguments = ["fit", file, "-k", 3, "--out", "run", "-q", *small_options]
    with no_room(4_000):
        done = dwcl(*arguments)
    assert done.exit_code == 2
    first, *_, last = done.stderr.splitlines()
    assert first.startswith("The state of the run could not be saved, and what was saved before")
    assert last.startswith("dwcl: Cannot write ")
    assert "File too large" in last
    assert [path.name for path in Path().iterdir()] == ["data.npz"]  # there is nothing to keep
    assert dwcl(*arguments).exit_code == 0


def test_divergence_tells_where_the_last_good_state_is(
    dwcl: Command, file: Path, small_options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise TrainingError("The loss exploded in phase 'contrast-1', epoch 3.")

    arguments = ["fit", file, "-k", 3, "--out", "run", "-q", *small_options]
    with monkeypatch.context() as patch:
        patch.setattr("dwcl.methods.dwcl.DWCL.contrast", broken)
        done = dwcl(*arguments)
    assert done.exit_code == 2
    assert done.stderr == (
        "dwcl: The loss exploded in phase 'contrast-1', epoch 3. The last good state is kept in "
        "run.unfinished. To fit with other settings, add --force, which discards it, or give "
        "another --out.\n"
    )
    assert Path("run.unfinished/checkpoint-000001.json").exists()
    assert dwcl(*arguments, "--force").exit_code == 0


def test_a_rate_beyond_reason_leaves_nothing_to_keep(
    dwcl: Command, file: Path, small_options: list[str]
) -> None:
    options = [*small_options, "--set", "learning_rate=1e30"]
    done = dwcl("fit", file, "-k", 3, "--out", "run", "-q", *options)
    assert done.exit_code == 2
    assert "in phase 'pretrain', epoch " in done.stderr
    assert "in view 'view1', 'view2'" in done.stderr
    assert "kept" not in done.stderr
    assert [path.name for path in Path().iterdir()] == ["data.npz"]
