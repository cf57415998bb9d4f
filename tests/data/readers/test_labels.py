"""Labels in files of their own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.io import savemat

from dwcl.data.readers import read
from dwcl.data.readers.labels import GivenLabels, as_numbers, read_labels
from dwcl.errors import DataError, FileError


@pytest.fixture
def labels(tmp_path):
    def write(text, name="labels.csv"):
        path = tmp_path / name
        path.write_text(text)
        return read_labels(path)

    return write


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1\n2\n2\n", [1, 2, 2]),
        ("label\n1\n2\n", [1, 2]),
        ("anything\n1\n2\n", [1, 2]),
        ("class\ncat\ndog\n", ["cat", "dog"]),
        ("cat\ndog\n", ["cat", "dog"]),
        ("01\n02\n", ["01", "02"]),
    ],
)
def test_one_column_with_or_without_a_header(labels, text, values):
    found = labels(text)
    assert found.values.tolist() == values
    assert found.ids is None


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("id,label\na,1\nb,2\n", ["a", "b"]),
        ("label,id\n1,a\n2,b\n", ["a", "b"]),
        ("a;1\nb;2\n", ["a", "b"]),
        ("name\tvalue\n7\t1\n8\t2\n", ["7", "8"]),
        ("sample_id,age,class\na,9,1\nb,8,2\n", ["a", "b"]),
    ],
)
def test_two_columns_or_a_header_that_tells(labels, text, ids):
    found = labels(text)
    assert found.values.tolist() == [1, 2]
    assert found.ids.tolist() == ids


def test_a_header_without_ids(labels):
    assert labels("a,b,class\n1,2,0\n3,4,1\n").ids is None


def test_many_columns_without_a_clear_one_are_refused(labels):
    with pytest.raises(DataError, match="has 3 columns and it is not clear which holds the labels"):
        labels("a,b,c\n1,2,3\n")


def test_uneven_and_empty_files_are_refused(labels):
    with pytest.raises(DataError, match="line 2: 1 cells, but the lines before have 2"):
        labels("a,1\nb\n")
    with pytest.raises(FileError, match="has no lines"):
        labels("\n")


def test_arrays(tmp_path):
    path = tmp_path / "y.npy"
    np.save(path, np.array([[3], [1]]))
    assert read_labels(path).values.tolist() == [3, 1]
    np.save(path, np.eye(2))
    with pytest.raises(DataError, match=r"has shape \(2, 2\); one label per sample is expected"):
        read_labels(path)
    np.save(path, np.array([None]))
    with pytest.raises(FileError, match="cannot be read as a NumPy array"):
        read_labels(path)
    with pytest.raises(FileError, match=r"no file or folder 'x\.npy'"):
        read_labels(tmp_path / "x.npy")


def test_labels_are_arranged_by_id():
    given = GivenLabels(np.array([10, 20, 30]), np.array(["b", "a", "c"]), "y.csv")
    values, remark = given.arranged(np.array(["a", "b"]), 2)
    assert values.tolist() == [20, 10]
    assert remark == ""
    with pytest.raises(DataError, match=r"y\.csv has no label for 2 of 3 samples, such as 'd'"):
        given.arranged(np.array(["a", "d", "e"]), 3)


@pytest.mark.parametrize("start", [0, 1])
def test_ids_that_count_the_samples_are_their_positions(start):
    order = np.random.default_rng(start).permutation(11)
    given = GivenLabels(100 + order, (order + start).astype(str), "y.csv")
    values, remark = given.arranged(None, 11)
    assert values.tolist() == [100 + i for i in range(11)]
    assert remark == f"its ids are the positions of the samples from {start}"


@pytest.mark.parametrize("ids", [["s", "t"], ["1", "3"], ["2", "3"], ["0", "1", "2"], ["1"]])
def test_other_ids_are_refused_where_the_samples_have_none(ids):
    given = GivenLabels(np.arange(len(ids)), np.array(ids), "y.csv")
    with pytest.raises(
        DataError,
        match=rf"y\.csv has {len(ids)} labels with ids such as '{ids[0]}', but the 2 samples of "
        r"the data have no ids.* \(0 to 1, or 1 to 2, each once\) .* one label per line",
    ):
        given.arranged(None, 2)


def test_shuffled_positions_from_one_give_each_sample_its_label(tmp_path):
    order = np.random.default_rng(0).permutation(12)
    lines = [f"{i + 1},{i % 3}" for i in order]
    (tmp_path / "lab.csv").write_text("\n".join(["id,label", *lines]))
    table = np.random.default_rng(1).normal(size=(12, 4))
    savemat(tmp_path / "data.mat", {"X1": table, "X2": table[:, :3]})
    found = read(tmp_path / "data.mat", labels=str(tmp_path / "lab.csv"))
    assert found.labels.tolist() == [i % 3 for i in range(12)]
    assert (
        "labels: lab.csv, 3 values (its ids are the positions of the samples from 1)"
        in found.provenance.layout
    )


@pytest.mark.parametrize("make", [list, np.array, tuple, lambda y: np.array(y, dtype=object)])
def test_labels_from_memory_are_in_the_order_of_the_samples(make, tmp_path):
    (tmp_path / "data.csv").write_text("id,a,label\ns1,1,0\ns2,2,1\ns3,4,1\n")
    found = read(tmp_path / "data.csv", labels=make(["x", "y", "x"]))
    assert found.labels.tolist() == ["x", "y", "x"]
    assert found.columns["view1"] == ("a", "label")
    assert "labels: the given array, 2 values" in found.provenance.layout
    with pytest.raises(DataError, match=r"There are 4 labels, but the views are 'view1' 3 × 2"):
        read(tmp_path / "data.csv", labels=make(["x", "y", "x", "y"]))


@pytest.mark.parametrize("labels", [np.eye(3), [[1], [2, 3]], {"a": 1}, 7])
def test_labels_that_are_no_vector_are_refused(labels, tmp_path):
    (tmp_path / "data.csv").write_text("a,b\n1,2\n3,4\n5,7\n")
    with pytest.raises(DataError, match=r"labels is \w+ and not one value per sample\. The name"):
        read(tmp_path / "data.csv", labels=labels)


def test_a_path_names_a_file_of_labels(tmp_path):
    (tmp_path / "data.csv").write_text("a,b\n1,2\n3,4\n5,7\n")
    (tmp_path / "y.txt").write_text("u\nv\nu\n")
    assert read(tmp_path / "data.csv", labels=tmp_path / "y.txt").labels.tolist() == list("uvu")
    with pytest.raises(FileError, match=r"no file or folder 'z\.txt'"):
        read(tmp_path / "data.csv", labels=tmp_path / "z.txt")


def test_labels_in_order_must_be_as_many_as_samples():
    given = GivenLabels(np.array([1, 2, 3]), None, "y.csv")
    assert given.arranged(np.array(["a", "b", "c"]), 3)[0].tolist() == [1, 2, 3]
    with pytest.raises(
        DataError, match=r"3 labels in y\.csv, but the views have 2 .*name the column 'label'"
    ):
        given.arranged(None, 2)
    with pytest.raises(
        DataError, match=r"3 labels in y\.csv, but the views have 5 .* one .* expected\.$"
    ):
        given.arranged(None, 5)


def test_an_id_that_occurs_twice_is_refused():
    given = GivenLabels(np.array([1, 2]), np.array(["a", "a"]), "y.csv")
    with pytest.raises(DataError, match=r"y\.csv has more than one label for the same sample id"):
        given.arranged(np.array(["a"]), 1)


def test_numbers_are_taken_only_where_text_would_come_back():
    assert as_numbers(["1", "-2"]).dtype == np.int64
    assert as_numbers(["1", "1_0"]).tolist() == ["1", "1_0"]
    assert as_numbers(["9" * 30]).tolist() == ["9" * 30]
