"""Which samples have which views: tables of 0 and 1 in files of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dwcl.data.multiview import MultiView
from dwcl.data.readers import read
from dwcl.data.readers.observed import read_observed
from dwcl.data.writers import write_npz
from dwcl.errors import DataError, FileError

A = np.arange(8.0).reshape(4, 2)
TABLE = "rna,protein\n1,0\n1,1\n0,1\n1,1\n"
OBSERVED = [[True, False], [True, True], [False, True], [True, True]]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "there.csv"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., MultiView]:
    def load(ids: Any = None, **how: Any) -> MultiView:
        data = MultiView({"rna": A, "protein": A + 9}, sample_ids=ids)
        if ids is not None:
            write_npz(data, tmp_path / "data.npz")
            return read(tmp_path / "data.npz", **how)
        folder = tmp_path / "data"
        folder.mkdir(exist_ok=True)
        for name, view in data.views.items():
            np.save(folder / f"{name}.npy", view)
        found = read(folder, transpose=False, **how)
        return found if "views" in how else found.select(["rna", "protein"])

    return load


@pytest.mark.parametrize(
    "text",
    [
        TABLE,
        "protein,rna\n0,1\n1,1\n1,0\n1,1\n",
        "rna;protein\nTrue;False\ntrue;true\nfalse; true\n1;1\n",
        "id,rna,protein\n3,1,1\n0,1,0\n1,1,1\n2,0,1\n",
        "rna,sample_id,protein\n1,4,1\n1,1,0\n1,2,1\n0,3,1\n",
    ],
    ids=["plain", "turned", "words", "positions", "from one"],
)
def test_a_table_finds_its_views_and_samples(write, load, text: str) -> None:
    data = load(observed=write(text))
    assert data.observed.tolist() == OBSERVED
    assert data.provenance.layout[-1].startswith(
        ("missing: rna 1, protein 1 of 4 samples, by there.csv", "missing: protein 1, rna 1 of 4")
    )


def test_ids_are_those_of_the_samples(write, load) -> None:
    text = "id,protein,rna\nd,1,1\nc,1,0\nx,0,0\nb,1,1\na,0,1\n"
    assert load(ids=list("abcd"), observed=str(write(text))).observed.tolist() == OBSERVED
    with pytest.raises(DataError, match=r"there\.csv has no row for 1 of 4 samples, such as 'e'"):
        load(ids=list("abce"), observed=write(text))


def test_a_view_that_is_not_named_is_complete(write, load) -> None:
    data = load(observed=write("protein\n0\n1\n1\n0\n"))
    assert data.observed[:, 0].all()
    assert data.observed[:, 1].tolist() == [False, True, True, False]


def test_columns_of_views_that_were_not_asked_for_are_left_aside(write, load) -> None:
    data = load(views=["protein"], observed=write(TABLE))
    assert data.observed.tolist() == [[False], [True], [True], [True]]
    with pytest.raises(DataError, match="no column for any of the views rna"):
        load(views=["rna"], observed=write("protein\n1\n1\n1\n1\n"))


def test_truth_values_from_memory(load) -> None:
    data = load(views=["rna", "protein"], observed=np.array(OBSERVED))
    assert data.observed.tolist() == OBSERVED
    assert load(observed={"protein": [0, 1, 1, 1]}).observed[:, 0].all()


def test_the_hash_of_the_data_tells_what_is_missing(write, load) -> None:
    one, other = load(), load(observed=write(TABLE))
    assert one.fingerprint() != other.fingerprint()


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("rna,protien\n1,1\n1,1\n1,1\n1,1\n", DataError, "no view is called so.*'protein'"),
        (
            "rna,protein\n1,1\n1,0\n",
            DataError,
            "There are 2 rows in there.csv, but the",
        ),
        ("rna,protein\n1,1\n1,2\n1,1\n1,1\n", DataError, "line 3: '2' is neither 1"),
        ("1,1\n1,0\n1,1\n1,1\n", DataError, "its first line must name the views"),
        ("0,1\n1,0\n1,1\n1,1\n", DataError, "its first line must name the views"),
        ("rna,rna\n1,1\n1,1\n", DataError, "two columns of the same name"),
        ("id,rna\na,1\na,1\nb,1\nc,1\n", DataError, "more than one row for the same sample id"),
        ("id,rna\na,1\nb,1\nc,1\nd,1\n", DataError, "4 rows with ids such as 'a', but the 4"),
        ("rna,protein\n1,1\n1\n1,1\n", DataError, "line 3: 1 cells"),
        ("rna,protein\n", FileError, "has 1 line"),
        ("", FileError, "has 0 line"),
    ],
)
def test_tables_that_cannot_be_used(write, load, text: str, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        load(observed=write(text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"no file or folder 'no\.csv'"):
        read_observed(tmp_path / "no.csv")


def test_empty_cells_of_a_table_are_missing_rows(tmp_path: Path) -> None:
    text = "id,rna_a,rna_b,protein_a,protein_b\ns1,1,2,3,3\ns2,,,4,4\ns3,5,6,,\ns4,7,8,9,\n"
    (tmp_path / "t.csv").write_text(text)
    data = read(tmp_path / "t.csv", views=["rna", "protein"])
    assert data.observed.tolist() == [[True, True], [False, True], [True, False], [True, True]]
