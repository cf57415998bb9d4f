from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from pydantic import ValidationError

from dwcl.data.catalogue import Catalogue, Entry, Mirror, entries, find, shape_in_words
from dwcl.data.fetch import import_file, load
from dwcl.errors import SettingError

PAPER = {
    "Caltech5V7": (1400, (40, 254, 1984, 512, 928), 7),
    "Caltech6V7": (1400, (48, 40, 254, 1984, 512, 928), 7),
    "Caltech6V20": (2386, (48, 40, 254, 1984, 512, 928), 20),
    "DHA": (483, (110, 6144), 23),
    "NUSWIDE": (5000, (64, 225, 144, 73, 128), 5),
    "Scene": (4485, (20, 59, 40), 15),
    "Fashion": (10000, (784, 784, 784), 10),
    "CIFAR10": (60000, (3072, 5376, 512, 5376, 5376, 1239, 5376), 10),
}


def test_every_public_file_has_its_entry(shared_data: Path) -> None:
    sources = json.loads((shared_data / "sources.json").read_text(encoding="utf-8"))
    by_hash = {entry.sha256: entry for entry in entries() if entry.sha256}
    assert set(by_hash) == {source["sha256"] for source in sources}
    for source in sources:
        entry = by_hash[source["sha256"]]
        assert entry.bytes == source["bytes"]
        mirror = Mirror(
            url="https://raw.githubusercontent.com/"
            f"{source['origin']}/{source['commit']}/{quote(source['path'])}",
            repository=source["origin"],
            commit=source["commit"],
        )
        assert mirror in entry.mirrors
        found = find(source["name"])
        if sum(other["name"] == source["name"] for other in sources) == 1:
            assert found is entry or entry.name.startswith(found.name + "-")
    assert sum(len(entry.mirrors) for entry in entries()) == len(sources)


def test_files_of_the_same_bytes_are_mirrors_of_one_entry() -> None:
    scene = find("scene15")
    assert len(scene.urls) == 2
    assert "Completer" in scene.urls[1]
    assert find("Scene-15") is find("scene_15") is find("Scene") is find("catalogue:scene15")
    assert find("Scene-15") is scene


def test_files_of_one_name_and_other_bytes_are_entries_of_their_own() -> None:
    assert find("BBCSport").name == "bbcsport"
    assert find("bbcsport-dealmvc").sha256 != find("bbcsport").sha256
    assert find("BDGP").kind == "download"
    assert find("bdgp-cvcl").kind == "archive"


@pytest.mark.parametrize("paper", PAPER)
def test_the_papers_data_sets_have_its_shapes(paper: str) -> None:
    (entry,) = (entry for entry in entries() if entry.paper == paper)
    assert find(paper) is entry
    assert (entry.n, entry.widths, entry.classes) == PAPER[paper]


def test_all_data_sets_of_the_paper_are_there_and_no_other() -> None:
    assert {entry.paper for entry in entries() if entry.paper} == set(PAPER)


def test_shapes_that_were_counted_are_complete() -> None:
    counted = [entry for entry in entries() if entry.shape_from in ("file", "paper")]
    assert all(entry.n and entry.widths and entry.classes for entry in counted)
    assert all(entry.n is None for entry in entries() if entry.shape_from is None)


def test_entries_are_ordered_by_name() -> None:
    names = [entry.name for entry in entries()]
    assert names == sorted(names)


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(SettingError, match=r"no data set 'Scene16'.*Did you mean 'scene15'"):
        find("Scene16")
    with pytest.raises(SettingError, match="Known: 100leaves, 3sources"):
        find("catalogue:qqqq")


def test_an_entry_is_found_as_itself() -> None:
    entry = find("hw")
    assert find(entry) is entry
    assert entry.source == "catalogue:hw"


def test_shapes_in_words() -> None:
    assert find("scene15").shape == "4,485 samples · views of 20, 59, 40 · 15 classes"
    assert find("ngs").shape == "500 samples · 5 classes"
    assert shape_in_words(None, None) == "shape unknown until it is opened"


def test_an_incomplete_entry_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"kind download and lacks \['sha256', 'bytes'"):
        Entry(name="half", kind="download", title="", filename="half.mat")
    with pytest.raises(ValidationError, match="pattern"):
        Entry(name="Upper", kind="embedded", title="")
    with pytest.raises(ValidationError, match="Extra inputs"):
        Entry(name="more", kind="embedded", title="", link="")  # type: ignore[call-arg]


def test_names_and_files_must_differ() -> None:
    first = Entry(name="ab", kind="embedded", title="", aliases=("A-B",))
    second = Entry(name="other", kind="embedded", title="", aliases=("a_b",))
    assert Catalogue(entries=(first,)).by_key == {"ab": first}
    with pytest.raises(ValidationError, match="'other' and 'ab' share the name 'ab'"):
        Catalogue(entries=(first, second))
    built = [Entry(name=name, kind="build", title="", filename="x.npz") for name in ("c", "d")]
    with pytest.raises(ValidationError, match="two entries have the same file name"):
        Catalogue(entries=tuple(built))


def test_the_files_of_the_catalogue_have_the_shapes_that_it_says(
    shared_data: Path, tmp_path: Path
) -> None:
    by_name = {"Scene_15": "scene15", "MSRC_v1": "msrc-v1", "PIE_face_10": "pie-face-10"}
    for file in ("Scene_15", "MSRC_v1", "HW", "PIE_face_10", "BBCSport", "synthetic3d"):
        entry = find(by_name.get(file, file))
        import_file(entry, shared_data / f"{file}.mat", tmp_path)
        assert entry.shape_from == "file"
        data = load(entry, home=tmp_path, fetch_if_missing=False)
        assert (data.n_samples, data.widths, data.n_label_values) == (
            entry.n,
            entry.widths,
            entry.classes,
        )
