"""Folders with one file per view."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from dwcl.data.readers import read
from dwcl.errors import DataError, FileError

RNG = np.random.default_rng(4)
A = RNG.normal(size=(6, 4))
B = RNG.normal(size=(6, 3))
Y = np.array([0, 0, 1, 1, 2, 2])


@pytest.fixture
def fill(tmp_path):
    def write(**files):
        for name, content in files.items():
            stem, _, ending = name.rpartition("_")
            path = tmp_path / f"{stem}.{ending}"
            if ending == "npy":
                np.save(path, content)
            else:
                path.write_text(content)
        return tmp_path

    return write


def test_arrays_in_the_order_of_their_numbers_with_labels(fill):
    folder = fill(view10_npy=B.T, view2_npy=A.T.astype(np.float32), labels_npy=Y)
    found = read(folder)
    assert found.names == ("view2", "view10")
    assert found["view2"].dtype == np.float32
    np.testing.assert_array_equal(found["view10"], B)
    np.testing.assert_array_equal(found.labels, Y)
    assert found.provenance.layout == (
        "views: variables view2, view10, 4 + 3 features",
        "orientation: samples in columns (transposed)",
        "type: folder of NumPy arrays",
        "labels: labels.npy, 3 values",
    )


def test_arrays_with_labels_in_a_text_file_and_other_files_beside(fill):
    folder = fill(rna_npy=A, prot_npy=B, truth_txt="0\n0\n1\n1\n2\n2\n", README_txt="hello")
    found = read(folder)
    assert found.names == ("prot", "rna")
    assert found.labels.tolist() == Y.tolist()


def test_one_array_alone_has_samples_in_rows(fill):
    np.testing.assert_array_equal(read(fill(rna_npy=A))["view1"], A)


def test_the_hash_is_over_names_and_hashes_of_the_files_that_were_read(fill):
    folder = fill(rna_npy=A, prot_npy=B, README_md="hello")
    expected = hashlib.sha256()
    for name in ("prot.npy", "rna.npy"):
        inner = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        expected.update(f"{name}\n{inner}\n".encode())
    assert read(folder).provenance.sha256 == expected.hexdigest()
    (folder / "README.md").write_text("other")
    assert read(folder).provenance.sha256 == expected.hexdigest()
    fill(rna_npy=A + 1)
    assert read(folder).provenance.sha256 != expected.hexdigest()


def test_tables_are_matched_by_their_ids(fill, caplog):
    folder = fill(
        prot_csv="id,p,q\ns3,1,2\ns1,3,4\ns9,0,0\n",
        rna_tsv="id\ta\tb\tc\ns1\t1\t2\t3\ns2\t4\t5\t6\ns3\t7\t8\t9\n",
        labels_csv="id,label\ns1,x\ns2,y\ns3,z\n",
    )
    found = read(folder)
    assert found.sample_ids.tolist() == ["s3", "s1"]
    np.testing.assert_array_equal(found["prot"], [[1, 2], [3, 4]])
    np.testing.assert_array_equal(found["rna"], [[7, 8, 9], [1, 2, 3]])
    assert found.labels.tolist() == ["z", "x"]
    assert found.columns["rna"] == ("a", "b", "c")
    line = "samples: 2 are in all views; left out: 1 of view 'prot' (s9), 1 of view 'rna' (s2)"
    assert line in found.provenance.layout
    assert line in caplog.text


def test_tables_without_ids_are_matched_by_position(fill):
    found = read(fill(a_csv="x,y\n1,2\n3,4\n", b_csv="u,label\n5,0\n6,1\n"))
    np.testing.assert_array_equal(found["b"], [[5], [6]])
    assert found.labels.tolist() == [0, 1]
    assert "labels: column label, 2 values" in found.provenance.layout


def test_tables_of_different_lengths_are_refused(fill):
    with pytest.raises(DataError, match="different numbers of samples: 'a' 2, 'b' 3"):
        read(fill(a_csv="x,y\n1,2\n3,4\n", b_csv="u,v\n5,6\n7,8\n9,9\n"))


def test_tables_with_samples_in_columns_are_known_by_common_names(fill):
    folder = fill(
        rna_csv="gene,s1,s2\nTP53,1,2\nMYC,3,4\nEGFR,5,6\n", prot_csv="protein,s2,s1\nAKT,7,8\n"
    )
    found = read(folder)
    assert found.sample_ids.tolist() == ["s2", "s1"]
    np.testing.assert_array_equal(found["rna"], [[2, 4, 6], [1, 3, 5]])
    assert found.columns["prot"] == ("AKT",)
    assert "orientation: samples in columns (transposed)" in found.provenance.layout


def test_tables_of_numbers_alone_with_a_common_number_of_columns(fill):
    found = read(fill(a_csv="1.5,2,3\n3,4,5\n", b_csv="5.5,6,7\n7,8,9\n9,9,9\n"))
    assert found.n_samples == 3
    assert found.widths == (2, 3)
    text = "1.5,2,3\n3,4,5\n"
    assert read(fill(a_csv=text, b_csv=text)).n_samples == 2
    assert read(fill(a_csv=text, b_csv=text), transpose=True).n_samples == 3
    assert read(fill(a_csv=text, b_csv="1.5,2\n3,4\n5,6\n"), transpose=["a"]).n_samples == 3


def test_tables_without_a_common_sample_are_refused(fill):
    with pytest.raises(
        DataError, match="No sample is in all of the views: 'a' has s1, s2; 'b' has"
    ):
        read(fill(a_csv="id,x\ns1,1\ns2,2\n", b_csv="id,u\nt1,5\nt2,6\n"))


def test_views_and_labels_are_chosen_by_the_names_of_files(fill):
    folder = fill(a_npy=A, b_npy=B, group_npy=Y, other_npy=Y % 2)
    found = read(folder, views=["b"], labels="other")
    assert found.names == ("b",)
    assert found.labels.tolist() == [0, 0, 1, 1, 0, 0]
    assert read(folder, views=["b", "a"]).names == ("b", "a")
    texts = fill(u_csv="x,y\n1,2\n3,4\n", w_csv="x\n1\n2\n")
    found = read(texts, views=["w", "u"])
    assert found.names == ("w", "u")
    with pytest.raises(DataError, match=r"no view 'thing'\. Known: a, b, group, other, u, w"):
        read(texts, views=["thing"])
    with pytest.raises(DataError, match="labels='y' is neither a file of the folder"):
        read(texts, labels="y")


def test_given_labels_keep_label_files_out_of_the_views(fill):
    folder = fill(a_npy=A, b_npy=B, labels_npy=Y)
    (folder / "sub").mkdir()
    other = folder / "sub" / "mine.txt"
    other.write_text("\n".join("uuvvww"))
    found = read(folder, labels=str(other))
    assert found.names == ("a", "b")
    assert found.labels.tolist() == list("uuvvww")


def test_two_readings_of_a_folder_are_refused(fill):
    folder = fill(a_npy=A, b_csv="x\n1\n2\n")
    with pytest.raises(DataError, match=r"two ways: a from \.npy files, or b from text files"):
        read(folder)
    assert read(folder, views=["b"]).n_samples == 2
    folder = fill(labels_npy=Y, truth_csv="0\n")
    with pytest.raises(DataError, match="two ways: from labels or truth"):
        read(folder)
    fill(a_tsv="x\n1\n2\n", a_csv="x\n1\n2\n")
    with pytest.raises(DataError, match=r"a\.csv and a\.tsv .* would both be the view 'a'"):
        read(folder)


def test_labels_of_another_length_are_refused(fill):
    with pytest.raises(DataError, match="There are 5 labels, but the views are 'a' 6 × 4"):
        read(fill(a_npy=A, b_npy=B, labels_npy=Y[:5]))


def test_a_folder_with_nothing_to_read_is_refused(fill, tmp_path):
    with pytest.raises(FileError, match=r"nothing to read in the folder .* One \.npy, \.csv"):
        read(tmp_path)
    with pytest.raises(FileError, match="nothing to read"):
        read(fill(notes_md="hello", labels_npy=Y))


def test_objects_in_a_folder_are_never_unpickled(fill):
    folder = fill(things_npy=np.array([{}], dtype=object))
    with pytest.raises(DataError, match=r"the file holds things \(an array of Python objects"):
        read(folder)
