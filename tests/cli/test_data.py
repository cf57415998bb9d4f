"""``dwcl data``: the catalogue, and what is understood of a file."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from dwcl import MultiView
from dwcl.data import catalogue, fashion
from dwcl.data.catalogue import Catalogue, Entry
from dwcl.data.writers import write_npz

Command = Callable[..., Any]
Make = Callable[..., Entry]


# -- show --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "n", "widths", "classes"),
    [
        ("Scene_15.mat", 4485, [20, 59, 40], 15),
        ("MSRC_v1.mat", 210, [24, 576, 512, 256, 254], 7),
        ("HW.mat", 2000, [216, 76, 64, 6, 240, 47], 10),
        ("PIE_face_10.mat", 680, [484, 256, 279], 68),
        ("BBCSport.mat", 544, [3183, 3203], 5),
        ("synthetic3d.mat", 600, [3, 3, 3], 3),
    ],
)
def test_public_files_are_understood_with_no_flags(
    dwcl: Command, shared_data: Path, name: str, n: int, widths: list[int], classes: int
) -> None:
    done = dwcl("data", "show", shared_data / name, "--json")
    assert done.exit_code == 0
    assert done.stderr == ""
    facts = json.loads(done.stdout)
    assert facts["n"] == n
    assert [view["width"] for view in facts["views"]] == widths
    assert facts["label_values"] == classes


def test_a_file_is_shown(dwcl: Command, place: Path) -> None:
    counts = sp.random_array((12, 5), density=0.5, rng=np.random.default_rng(0), format="csc")
    scipy.io.savemat(place / "m.mat", {"X1": counts, "X2": np.eye(12)[:, :4]})
    done = dwcl("data", "show", "m.mat")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "m.mat: 12 samples"
    assert any("orientation: samples in rows" in line for line in lines)
    rows = [line.split() for line in lines]
    assert ["X1", "5", "float64,", "sparse", "50.0%"] in rows
    assert ["X2", "4", "float64", "8.3%"] in rows
    assert lines[-1] == "no labels"


def test_a_file_is_shown_as_it_is_told_to_be_read(dwcl: Command, place: Path) -> None:
    rng = np.random.default_rng(0)
    scipy.io.savemat(place / "m.mat", {"A": rng.random((4, 9)), "B": rng.random((6, 9))})
    unclear = dwcl("data", "show", "m.mat", "--views", "B", "--json")
    assert (unclear.exit_code, unclear.stdout) == (2, "")
    assert "--transpose" in unclear.stderr
    turned = dwcl("data", "show", "m.mat", "--views", "B", "--transpose", "--json")
    facts = json.loads(turned.stdout)
    assert facts["n"] == 9
    assert [view["name"] for view in facts["views"]] == ["B"]
    kept = dwcl("data", "show", "m.mat", "--views", "B", "--no-transpose", "--json")
    assert json.loads(kept.stdout)["n"] == 6


def test_the_embedded_data_set_is_shown(dwcl: Command) -> None:
    done = dwcl("data", "show", "catalogue:digits")
    assert done.stdout.startswith("catalogue:digits: 1797 samples")
    assert done.stdout.endswith("10 label values\n")


# -- the catalogue -----------------------------------------------------------------------------


def test_the_list_has_every_data_set_with_its_state(dwcl: Command) -> None:
    done = dwcl("data", "list")
    assert done.exit_code == 0
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["scene15", "4485", "20,", "59,", "40", "15", "not", "fetched"] in rows
    assert ["digits", "1797", "64,", "72,", "25,", "25,", "48,", "10", "10", "embedded"] in rows
    found = json.loads(dwcl("data", "list", "--json").stdout)
    assert set(found) == {entry.name for entry in catalogue.entries()}
    assert found["scene15"]["widths"] == [20, 59, 40]
    assert found["scene15"]["status"] == "not fetched"
    assert found["dha"]["status"] == "import only"


@pytest.fixture
def tiny(
    web: Any, make_entry: Make, data: MultiView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> bytes:
    """A catalogue of one small data set, served on loopback; returns the file's bytes."""
    write_npz(data, tmp_path / "served.npz")
    content = (tmp_path / "served.npz").read_bytes()
    entry = make_entry(
        content, web.put("/tiny", content), filename="tiny.npz", n=40, widths=(6, 5), classes=3
    )
    monkeypatch.setattr(catalogue, "catalogue", lambda: Catalogue(entries=(entry,)))
    return content


def test_a_data_set_is_fetched_once_and_used_by_its_name(
    dwcl: Command, web: Any, tiny: bytes, tmp_path: Path, small_options: list[str]
) -> None:
    target = tmp_path / "home" / "tiny.npz"
    assert dwcl("data", "list").stdout.split()[-2:] == ["not", "fetched"]
    done = dwcl("data", "fetch", "tiny")
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"{target}\n", "")
    assert target.read_bytes() == tiny
    assert dwcl("data", "list").stdout.split()[-1] == "here"
    again = dwcl("data", "fetch", "Tiny", "--json")
    assert json.loads(again.stdout) == {"path": str(target)}
    assert web.asked == ["/tiny"]
    assert dwcl("fit", "catalogue:tiny", "-k", 3, "-q", *small_options).exit_code == 0
    facts = json.loads(Path("runs/tiny/run.json").read_text())
    assert facts["data"]["source"] == "catalogue:tiny"
    assert facts["data"]["sha256"] == hashlib.sha256(tiny).hexdigest()


def test_a_data_set_is_fetched_when_it_is_needed(dwcl: Command, web: Any, tiny: bytes) -> None:
    done = dwcl("data", "show", "catalogue:tiny", "--json")
    assert json.loads(done.stdout)["n"] == 40
    assert web.asked == ["/tiny"]


def test_a_download_that_is_another_file_is_refused(
    dwcl: Command, web: Any, tiny: bytes, tmp_path: Path
) -> None:
    web.put("/tiny", tiny[:-1] + b"?")
    done = dwcl("data", "fetch", "tiny", "-q")
    assert done.exit_code == 2
    assert done.stderr.startswith("dwcl: ")
    assert "SHA-256" in done.stderr or "sha256" in done.stderr
    assert not (tmp_path / "home" / "tiny.npz").exists()


def test_a_file_is_imported_if_it_is_the_right_one(
    dwcl: Command, tiny: bytes, tmp_path: Path, place: Path
) -> None:
    (place / "wrong.npz").write_bytes(tiny[:-1])
    done = dwcl("data", "import", "tiny", "wrong.npz")
    assert done.exit_code == 2
    assert "wrong.npz is not the file of 'tiny'" in done.stderr
    assert not (tmp_path / "home" / "tiny.npz").exists()
    (place / "right.npz").write_bytes(tiny)
    done = dwcl("data", "import", "tiny", "right.npz")
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path / 'home' / 'tiny.npz'}\n")
    assert (tmp_path / "home" / "tiny.npz").read_bytes() == tiny


# -- build -------------------------------------------------------------------------------------


def _idx(values: np.ndarray[Any, Any]) -> bytes:
    head = struct.pack(f">I{values.ndim}I", 0x0800 + values.ndim, *values.shape)
    return gzip.compress(head + values.astype(np.uint8).tobytes())


def test_fashion_is_built_from_the_folder_given(
    dwcl: Command, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "idx").mkdir()
    rng = np.random.default_rng(0)
    hashes = {}
    for part, classes in (("train", 5), ("t10k", 5)):
        values = {
            f"{part}-images-idx3-ubyte": rng.integers(0, 256, (classes * 3000, 1, 2)),
            f"{part}-labels-idx1-ubyte": np.arange(classes * 3000) % 5 + 5 * (part == "t10k"),
        }
        for stem, array in values.items():
            packed = _idx(array)
            (place / "idx" / f"{stem}.gz").write_bytes(packed)
            hashes[stem] = hashlib.sha256(gzip.decompress(packed)).hexdigest()
    monkeypatch.setattr(fashion, "ORIGINAL", hashes)
    done = dwcl("data", "build", "fashion", "--from", "idx", "--seed", 3, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout) == {"path": str(tmp_path / "home" / "fashion.npz")}
    facts = json.loads(dwcl("data", "show", "catalogue:fashion", "--json").stdout)
    assert facts["n"] == 10_000
    assert facts["label_values"] == 10
    assert "built with seed 3, 1000 samples per class" in facts["layout"]


def test_only_what_is_built_can_be_built(dwcl: Command) -> None:
    done = dwcl("data", "build", "scene15")
    assert done.exit_code == 2
    assert "'scene15' is not built from raw files; 'fashion' is the one that is" in done.stderr


def test_images_that_are_not_there(dwcl: Command, place: Path, tmp_path: Path) -> None:
    done = dwcl("data", "build", "fashion", "--from", "nowhere")
    assert done.exit_code == 2
    assert "dataset-fashion-mnist" in done.stderr
    assert not (tmp_path / "home").exists()
