"""``dwcl evaluate``: scores against known classes, wherever these lie."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dwcl import MultiView, load_model, score
from dwcl.data.writers import write_npz

Command = Callable[..., Any]


def test_the_scores_are_those_of_the_clusters(
    dwcl: Command, run: Path, file: Path, data: MultiView
) -> None:
    done = dwcl("evaluate", run, file, "--json")
    assert done.exit_code == 0
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert found["clusters"] == pytest.approx(score(data.labels, load_model(run).predict(data)))
    assert list(found["views"]) == ["view1", "view2"]
    assert found["n_samples"] == 40
    assert "probe" not in found


def test_they_agree_with_those_of_the_fit(dwcl: Command, run: Path, file: Path) -> None:
    found = json.loads(dwcl("evaluate", run, file, "--json").stdout)
    facts = json.loads((run / "run.json").read_text())
    assert found["clusters"] == pytest.approx(facts["scores"]["clusters"])


def test_the_table(dwcl: Command, run: Path, file: Path) -> None:
    done = dwcl("evaluate", run, file)
    assert "40 samples, 3 label values" in done.stdout
    scores = json.loads(dwcl("evaluate", run, file, "--json").stdout)["clusters"]
    row = next(line for line in done.stdout.splitlines() if "all views" in line)
    expected = [f"{scores[key]:.3f}" for key in ("acc", "nmi", "ari", "purity", "f")]
    assert row.split()[-5:] == expected


def test_a_method_with_one_feature_for_all_views_has_no_scores_by_view(
    dwcl: Command, file: Path
) -> None:
    settings = ("encoder=8", "latent=4", "pretrain_epochs=1", "epochs=1", "n_init=1", "threads=1")
    options = [part for setting in settings for part in ("--set", setting)]
    fitted = dwcl("fit", file, "-k", 3, "--method", "dcmvc", "--out", "r", *options)
    assert fitted.exit_code == 0
    done = dwcl("evaluate", "r", file)
    assert done.exit_code == 0
    assert "all views" in done.stdout
    assert "view1" not in done.stdout


def test_classes_from_a_file_of_their_own(
    dwcl: Command, run: Path, file: Path, data: MultiView, place: Path
) -> None:
    write_npz(data.with_labels(None), place / "bare.npz")
    assert data.labels is not None
    lines = [f"{i},class {label}\n" for i, label in zip(data.sample_ids, data.labels, strict=True)]
    np.random.default_rng(0).shuffle(lines)  # matched by id, not by position
    Path("classes.csv").write_text("sample,class\n" + "".join(lines))
    given = json.loads(dwcl("evaluate", run, file, "--json").stdout)
    found = json.loads(
        dwcl("evaluate", run, "bare.npz", "--labels", "classes.csv", "--json").stdout
    )
    assert found == given


def test_the_probe(dwcl: Command, run: Path, file: Path) -> None:
    done = dwcl("evaluate", run, file, "--probe")
    line = done.stdout.splitlines()[-1]
    probe = json.loads(dwcl("evaluate", run, file, "--probe", "--json").stdout)["probe"]
    assert probe["acc_mean"] > 0.8
    assert line == (
        f"linear probe: ACC {probe['acc_mean']:.3f} ± {probe['acc_std']:.3f}, "
        f"recall {probe['recall_mean']:.3f} ± {probe['recall_std']:.3f}, "
        f"F1 {probe['f1_mean']:.3f} ± {probe['f1_std']:.3f}"
    )


def test_without_classes_there_is_nothing_to_score(
    dwcl: Command, run: Path, data: MultiView, place: Path
) -> None:
    write_npz(data.with_labels(None), place / "bare.npz")
    done = dwcl("evaluate", run, "bare.npz")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert "bare.npz has no labels, and scores need them" in done.stderr
    assert "--labels NAME" in done.stderr


def test_quiet_leaves_the_scores_alone(dwcl: Command, run: Path, file: Path) -> None:
    aloud, quiet = dwcl("evaluate", run, file), dwcl("evaluate", run, file, "-q")
    assert quiet.stderr == ""
    assert "labels: 3 values" in aloud.stderr
    assert quiet.stdout == aloud.stdout
