"""Figures in the documents are those of committed records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dwcl import DWCL, make_multiview
from dwcl.data.multiview import Provenance
from dwcl.errors import DataError, FileError
from dwcl.evaluate.summary import score_model
from dwcl.experiments.journal import write_journal
from dwcl.experiments.records import (
    TABLES,
    add,
    defaults_table,
    fill_page,
    main,
    read_records,
    record_of_run,
    spread,
)
from dwcl.experiments.runner import run_experiment
from dwcl.experiments.spec import parse_spec
from dwcl.experiments.store import Store
from dwcl.storage.run import write_run

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("path", sorted((DOCS / "records").glob("*.jsonl")), ids=lambda p: p.stem)
def test_the_results_page_says_what_its_records_say(path: Path) -> None:
    records = read_records(path)
    assert records
    page = (DOCS / "results.md").read_text("utf-8")
    assert fill_page(page, path.stem, TABLES[path.stem](records)) == page


def test_records_are_under_the_defaults_and_name_their_data() -> None:
    defaults = DWCL().get_params() | {"encoder": [500, 500, 2000]}
    free = {"n_clusters", "random_state", "threads"}
    for record in read_records(DOCS / "records" / "defaults.jsonl"):
        assert record["recipe"] is None
        assert len(record["sha256"]) == len(record["fingerprint"]) == 64
        given = {name: value for name, value in record["settings"].items() if name not in free}
        assert given == {name: value for name, value in defaults.items() if name not in free}


def _record(seed: int, acc: float) -> dict[str, Any]:
    scores = {"acc": acc, "nmi": 0.5, "ari": 0.25}
    return {
        "data": "toy",
        "method": "dwcl",
        "seed": seed,
        "seconds_total": 2.0 + seed,
        "scores": {"clusters": scores, "concat-ae": scores, "bsv": scores},
    }


def test_the_table_has_means_and_deviations() -> None:
    table = defaults_table([_record(0, 0.70), _record(1, 0.80)]).splitlines()
    assert table[2] == "| toy | 0, 1 | DWCL | 75.0 ± 7.1 | 50.0 ± 0.0 | 25.0 ± 0.0 | 2 |"
    assert table[4].startswith("|  |  | BSV | 75.0")


def test_methods_and_precisions_stand_side_by_side() -> None:
    records = [_record(0, 0.7), _record(1, 0.9), _record(0, 0.5) | {"method": "bsv"}]
    assert TABLES["methods"](records).splitlines()[2:] == [
        "| toy | bsv | 0 | 50.0 | 50.0 | 25.0 | 2 |",
        "|  | dwcl | 0, 1 | 80.0 ± 14.1 | 50.0 ± 0.0 | 25.0 ± 0.0 | 2 |",
    ]
    records = [_record(0, 0.7) | {"precision": p} for p in ("fp32", "bf16")]
    assert [line[:22] for line in TABLES["precision"](records).splitlines()[2:]] == [
        "| toy | bf16 | 0 | 70.",
        "|  | fp32 | 0 | 70.0 |",
    ]


def test_one_value_has_no_deviation() -> None:
    assert spread([12.34]) == "12.3"


def test_runs_under_other_settings_or_a_recipe_are_other_runs() -> None:
    plain = _record(0, 0.7) | {"settings": {"epochs": 50}, "recipe": None}
    other = plain | {"settings": {"epochs": 10}}
    under_recipe = plain | {"recipe": "scene"}
    better = plain | {"scores": _record(0, 0.9)["scores"]}
    assert len(add([plain], [other, under_recipe])) == 3
    assert add([plain], [better]) == [better]


def test_too_few_arguments_show_the_usage() -> None:
    with pytest.raises(
        SystemExit, match=r"usage: python -m dwcl.experiments.records TABLE RECORDS"
    ):
        main([])


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(DataError, match="lacks the marks"):
        fill_page("<!-- other: begin --> <!-- other: end -->", "mine", "table")


def test_runs_are_added_and_replaced(tmp_path: Path, small: dict[str, Any]) -> None:
    data = make_multiview(40, 3, widths=(4, 3), random_state=0)
    data = data.with_provenance(Provenance(source="folder/toy.npz", sha256="0" * 64))
    for seed in (1, 0):
        model = DWCL(3, **small, random_state=seed).fit(data)
        facts = {"seconds_total": 1.5, "scores": score_model(model, data.labels), "recipe": None}
        write_run(tmp_path / f"run{seed}", model, data, facts=facts)
    records, page = tmp_path / "r.jsonl", tmp_path / "page.md"
    page.write_text("above\n<!-- defaults: begin -->\nold\n<!-- defaults: end -->\nbelow\n")
    to = ["defaults", str(records), str(page), "abc"]
    main([*to, str(tmp_path / "run1")])
    main([*to, *(str(tmp_path / f"run{i}") for i in (0, 1))])
    found = read_records(records)
    assert [(r["data"], r["seed"]) for r in found] == [("toy", 0), ("toy", 1)]
    assert found[0]["settings"]["epochs"] == 6
    assert found[0]["views"] == {"view1": 4, "view2": 3}
    assert found[0]["commit"] == "abc"
    assert page.read_text().startswith("above")
    assert page.read_text().endswith("below\n")
    assert "| toy | 0, 1 | DWCL |" in page.read_text()
    assert "old" not in page.read_text()


def test_a_run_without_labels_or_a_missing_page_is_refused(
    tmp_path: Path, small: dict[str, Any]
) -> None:
    data = make_multiview(30, 2, widths=(4,), random_state=0).with_labels(None)
    model = DWCL(2, **small).fit(data)
    folder = write_run(tmp_path / "run", model, data, facts={"seconds_total": 1.0})
    with pytest.raises(DataError, match="has no scores"):
        record_of_run(folder, "abc")
    with pytest.raises(FileError, match="no page"):
        main(["defaults", str(tmp_path / "r"), str(tmp_path / "nowhere.md"), "abc"])
    assert json.loads((folder / "run.json").read_text())["data"]["label_values"] is None


def test_an_experiment_s_records_make_a_table_as_they_are(tiny: str, tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        run_experiment(parse_spec(tiny, "here"), store)
        write_journal(tmp_path / "r.jsonl", store, store.rows("tiny"))
    records, page = tmp_path / "r.jsonl", tmp_path / "page.md"
    page.write_text("<!-- methods: begin --><!-- methods: end -->")
    before = records.read_text()
    main(["methods", str(records), str(page)])
    assert records.read_text() == before
    lines = page.read_text().splitlines()
    assert [line.split("|")[2].strip() for line in lines if "±" in line] == [
        "concat-ae, balance=none",
        "concat-ae, balance=variance",
        "kmeans",
    ]
    with pytest.raises(DataError, match="holds an experiment"):
        main(["methods", str(records), str(page), "abc", str(tmp_path)])
