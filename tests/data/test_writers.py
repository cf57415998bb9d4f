"""Archives: what is written reads back equal, and nothing half-written stays."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dwcl.data.multiview import MultiView, Provenance
from dwcl.data.readers import read
from dwcl.data.writers import write_npz
from dwcl.errors import DataError, FileError

# Zero bytes at the end of a text are lost in arrays of numpy, in and out of files.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
TYPES = st.sampled_from(["<f4", "<f8", "<i2", "<i8", "|u1", "|b1"])


@st.composite
def multiviews(draw):
    n = draw(st.integers(1, 6))
    names = draw(st.lists(TEXT, min_size=1, max_size=4, unique=True))
    views, columns = {}, {}
    for name in names:
        width = draw(st.integers(1, 5))
        view = draw(hnp.arrays(draw(TYPES), (n, width)))
        views[name] = sp.csr_array(view) if draw(st.booleans()) else view
        if draw(st.booleans()):
            columns[name] = tuple(draw(st.lists(TEXT, min_size=width, max_size=width)))
    ids = draw(
        st.none()
        | st.lists(TEXT, min_size=n, max_size=n, unique=True)
        | st.lists(st.integers(-99, 99), min_size=n, max_size=n, unique=True)
    )
    labels = draw(
        st.none()
        | st.lists(st.integers(-3, 3), min_size=n, max_size=n)
        | st.lists(TEXT, min_size=n, max_size=n)
    )
    scaling = {name: "minmax" for name in names if draw(st.booleans())}
    return MultiView(
        views,
        sample_ids=None if ids is None else np.array(ids),
        labels=None if labels is None else np.array(labels),
        columns=columns,
        provenance=Provenance(scaling=scaling),
    )


def assert_same(found, expected):
    assert found.names == expected.names
    assert dict(found.columns) == dict(expected.columns)
    assert dict(found.provenance.scaling) == dict(expected.provenance.scaling)
    assert found.fingerprint() == expected.fingerprint()
    for a, b in zip(found.arrays, expected.arrays, strict=True):
        assert sp.issparse(a) == sp.issparse(b)
        assert a.dtype == b.dtype
    np.testing.assert_array_equal(found.sample_ids, expected.sample_ids)
    assert (found.labels is None) == (expected.labels is None)
    if expected.labels is not None:
        np.testing.assert_array_equal(found.labels, expected.labels)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(multiview=multiviews())
def test_what_is_written_reads_back_equal(tmp_path, multiview):
    write_npz(multiview, tmp_path / "data.npz")
    assert_same(read(tmp_path / "data.npz"), multiview)


@pytest.fixture
def two():
    return MultiView(
        {"rna": np.arange(12.0).reshape(4, 3), "age": sp.csr_array(np.eye(4, 2))},
        sample_ids=np.array(["a", "b", "c", "d"]),
        labels=np.array([0, 0, 1, 1]),
        columns={"rna": ("x", "y", "z")},
        provenance=Provenance(scaling={"rna": "minmax"}),
    )


def test_choices_and_remarks_on_an_archive(two, tmp_path):
    path = tmp_path / "data.npz"
    write_npz(two, path)
    found = read(path)
    assert found.provenance.layout == (
        "views: rna, age, 3 + 2 features",
        "orientation: samples in rows",
        "labels: 2 values",
        "type: NumPy archive of dwcl",
    )
    assert read(path, views=["age"]).names == ("age",)
    assert dict(read(path, views=["rna"]).provenance.scaling) == {"rna": "minmax"}
    with pytest.raises(DataError, match=r"no view 'ran'\. Did you mean 'rna'\?"):
        read(path, views=["ran"])
    with pytest.raises(DataError, match="says itself where its samples and labels are"):
        read(path, transpose=True)
    with pytest.raises(DataError, match="says itself"):
        read(path, labels="other")
    assert read(path, labels="labels", transpose=False).n_label_values == 2
    labels = tmp_path / "known.csv"
    labels.write_text("id,label\nd,3\nc,2\nb,1\na,0\n")
    assert read(path, labels=str(labels)).labels.tolist() == [0, 1, 2, 3]


def test_the_archive_can_be_read_by_numpy_alone(two, tmp_path):
    write_npz(two, tmp_path / "data.npz")
    with np.load(tmp_path / "data.npz", allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["view1"], two["rna"])
        assert archive["labels"].tolist() == [0, 0, 1, 1]
        about = json.loads(str(archive["dwcl"]))
    assert [view["name"] for view in about["views"]] == ["rna", "age"]


def test_the_same_data_give_the_same_bytes(two, tmp_path):
    write_npz(two, tmp_path / "a.npz")
    write_npz(two, tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_an_archive_of_a_later_format_is_refused(two, tmp_path):
    path = tmp_path / "data.npz"
    write_npz(two, path)
    with np.load(path) as archive:
        parts = dict(archive)
    about = json.loads(str(parts["dwcl"])) | {"format": 2}
    np.savez(path, **parts | {"dwcl": np.array(json.dumps(about))})
    with pytest.raises(DataError, match=r"has format 2; this version of dwcl reads up to format 1"):
        read(path)


def test_a_damaged_archive_is_refused(two, tmp_path):
    path = tmp_path / "data.npz"
    write_npz(two, path)
    with np.load(path) as archive:
        parts = dict(archive)
    del parts["view2.indptr"]
    np.savez(path, **parts)
    with pytest.raises(FileError, match="damaged"):
        read(path)


def test_text_as_objects_is_written_as_text_and_other_objects_are_refused(tmp_path):
    words = np.array(["a", "bb"], dtype=object)
    path = tmp_path / "data.npz"
    write_npz(MultiView({"x": np.eye(2)}, labels=words), path)
    assert read(path).labels.tolist() == ["a", "bb"]
    mixed = MultiView({"x": np.eye(2)}, labels=np.array(["a", 1], dtype=object))
    with pytest.raises(DataError, match="labels are Python objects of mixed types"):
        write_npz(mixed, path)
    assert read(path).labels.tolist() == ["a", "bb"]
    assert [file.name for file in tmp_path.iterdir()] == ["data.npz"]


def test_a_place_that_cannot_be_written(two, tmp_path):
    with pytest.raises(FileError, match="Cannot write"):
        write_npz(two, tmp_path / "nowhere" / "data.npz")
