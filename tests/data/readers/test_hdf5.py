"""MATLAB 7.3 files as MATLAB lays them out, and any other HDF5 files."""

from __future__ import annotations

import contextlib

import h5py
import numpy as np
import pytest
import scipy.sparse as sp

from dwcl.data.readers import read
from dwcl.errors import DataError, FileError

RNG = np.random.default_rng(2)
A = RNG.normal(size=(15, 4))
B = RNG.normal(size=(15, 6))
Y = np.repeat([0.0, 1.0, 2.0], 5).reshape(-1, 1)


@pytest.mark.parametrize("labels", [Y, Y.T])
def test_numbered_variables_of_matlab(write_mat73, labels):
    found = read(write_mat73({"X1": A, "X2": B.astype(np.float32), "Y": labels}))
    np.testing.assert_array_equal(found["X1"], A)
    assert found["X2"].dtype == np.float32
    np.testing.assert_array_equal(found.labels, Y[:, 0])
    assert found.provenance.layout == (
        "views: variables X1, X2, 4 + 6 features",
        "orientation: samples in rows",
        "labels: Y, 3 values",
        "type: MATLAB v7.3 (HDF5)",
    )


def test_a_cell_of_matlab_in_columns(write_mat73):
    found = read(write_mat73({"X": [A.T, B.T], "gt": Y}))
    np.testing.assert_array_equal(found["view1"], A)
    np.testing.assert_array_equal(found["view2"], B)


def test_a_nested_cell_and_repeated_labels(write_mat73):
    found = read(write_mat73({"data": [[A, B]], "truelabel": [Y, Y]}))
    assert found.widths == (4, 6)
    assert found.n_label_values == 3


def test_cells_are_counted_column_by_column(write_mat73, tmp_path):
    path = write_mat73({"X": [A, B]})
    with h5py.File(path, "r+") as file:
        references = file["X"][()].ravel()
        del file["X"]
        item = file.create_dataset("X", data=references.reshape(1, 2), dtype=h5py.ref_dtype)
        item.attrs["MATLAB_class"] = np.bytes_(b"cell")
    assert read(path).widths == (4, 6)


def test_sparse_matrices_of_matlab(write_mat73):
    counts = sp.random_array((15, 8), density=0.3, rng=np.random.default_rng(0))
    empty = sp.csc_array((15, 3))
    found = read(write_mat73({"X": [counts.T, empty.T, A.T], "Y": Y}))
    assert sp.issparse(found["view1"])
    np.testing.assert_array_equal(found["view1"].toarray(), counts.toarray())
    assert found["view2"].shape == (15, 3)
    assert found["view2"].nnz == 0


def test_structs_text_and_empty_variables_of_matlab_are_passed_over(write_mat73):
    path = write_mat73(
        {
            "X": [A, B],
            "Y": Y,
            "about": {"k": np.ones((2, 2))},
            "note": "hello",
            "none": np.empty((0, 3)),
        }
    )
    (ignored,) = (line for line in read(path).provenance.layout if line.startswith("ignored"))
    assert "about (a struct or an object of MATLAB)" in ignored
    assert "note (text)" in ignored
    assert "none (0 × 0)" in ignored


def test_functions_and_empty_cells_of_matlab_are_passed_over(write_mat73):
    path = write_mat73({"X": [A, B], "Y": Y, "f": A, "c": A})
    with h5py.File(path, "r+") as file:
        file["f"].attrs["MATLAB_class"] = np.bytes_(b"function_handle")
        file["c"].attrs["MATLAB_class"] = np.bytes_(b"cell")
        file["c"].attrs["MATLAB_empty"] = np.uint8(1)
    (ignored,) = (line for line in read(path).provenance.layout if line.startswith("ignored"))
    assert ignored == "ignored: c (a cell of 0), f (a struct or an object of MATLAB)"


def test_labels_as_words_of_matlab(write_mat73):
    words = ["car", "bus", "cat"] * 5
    found = read(write_mat73({"X": [A, B], "labels": words}))
    assert found.labels.tolist() == words


def test_images_of_matlab(write_mat73):
    images = RNG.normal(size=(15, 5, 5))
    found = read(write_mat73({"X1": images, "X2": images + 1, "Y": Y}))
    np.testing.assert_array_equal(found["X2"], (images + 1).reshape(15, 25))


def test_complex_variables_of_matlab_are_refused(write_mat73):
    with pytest.raises(DataError, match="Complex data not supported: view 'view1'"):
        read(write_mat73({"X": [A + 1j, B], "Y": Y}))


def test_complex_sparse_variables_of_matlab_are_refused(write_mat73):
    path = write_mat73({"X1": sp.csc_array(A), "X2": B, "Y": Y})
    with h5py.File(path, "r+") as file:
        pairs = np.zeros(file["X1/data"].shape, dtype=[("real", "f8"), ("imag", "f8")])
        del file["X1/data"]
        file["X1/data"] = pairs
    with pytest.raises(DataError, match="Complex data not supported: view 'X1'"):
        read(path)


def test_matlab_is_known_by_its_attributes_where_the_header_is_missing(tmp_path):
    path = tmp_path / "no_header.mat"
    with h5py.File(path, "w") as file:
        for name, value in {"X1": A, "X2": B}.items():
            file[name] = value.T
            file[name].attrs["MATLAB_class"] = np.bytes_(b"double")
        file["dangling"] = h5py.SoftLink("/nowhere")
        del file["dangling"]
    found = read(path)
    assert found.widths == (4, 6)
    assert found.provenance.layout[-1] == "type: MATLAB v7.3 (HDF5)"


def test_content_decides_and_not_the_suffix(write_mat73):
    path = write_mat73({"X1": A, "X2": B})
    renamed = path.rename(path.with_suffix(".dat"))
    assert read(renamed).widths == (4, 6)


# -- plain HDF5


@pytest.fixture
def write(tmp_path):
    def to_file(variables, name="data.h5"):
        path = tmp_path / name
        with h5py.File(path, "w") as file:
            for key, value in variables.items():
                file[key] = value
        return path

    return to_file


def test_plain_datasets_and_groups(write):
    found = read(write({"views/rna": A, "views/meth": B.astype(np.int32), "labels": Y[:, 0]}))
    assert found.names == ("meth", "rna")
    np.testing.assert_array_equal(found["rna"], A)
    assert found["meth"].dtype == np.int32
    assert found.provenance.layout[-1] == "type: HDF5"


def test_plain_datasets_called_mat_are_plain(write):
    assert read(write({"rna": A, "meth": B, "y": Y[:, 0]}, "odd.mat")).names == ("meth", "rna")


def test_text_labels_and_other_types_of_datasets(write):
    words = ["car", "bus", "cat"] * 5
    odd = np.zeros(3, dtype=[("a", "f8"), ("b", "i4")])
    path = write({"rna": A, "label": words, "odd": odd, "nothing": h5py.Empty("f8")})
    found = read(path)
    assert found.labels.tolist() == words
    (ignored,) = (line for line in found.provenance.layout if line.startswith("ignored"))
    assert ignored.startswith("ignored: nothing (empty), odd (of type [('a'")


def test_links_that_lead_nowhere_or_elsewhere_are_not_followed(write):
    path = write({"X1": A, "X2": B})
    other = write({"X3": A}, "other.h5")
    with h5py.File(path, "r+") as file:
        file["X4"] = h5py.SoftLink("/nowhere")
        file["X5"] = h5py.ExternalLink(other.name, "X3")
    assert read(path).names == ("X1", "X2")


# -- bad files


def test_a_truncated_file_gives_one_error_wherever_it_ends(write_mat73):
    whole = write_mat73({"X": [A, B], "Y": Y})
    content = whole.read_bytes()
    for length in [20, 128, 511, 513, 600, 1000, len(content) // 2, len(content) - 100]:
        cut = whole.with_name("cut.mat")
        cut.write_bytes(content[:length])
        with pytest.raises(FileError, match="damaged or its download stopped early"):
            read(cut)


@pytest.mark.parametrize("seed", range(15))
def test_flipped_bytes_never_give_an_error_from_below(write_mat73, seed):
    rng = np.random.default_rng(seed)
    path = write_mat73({"X": [A, sp.csc_array(B)], "Y": Y})
    content = bytearray(path.read_bytes())
    for place in rng.integers(512, len(content), size=40):
        content[place] = rng.integers(256)
    path.write_bytes(content)
    with contextlib.suppress(FileError, DataError):
        read(path)


def test_sparse_parts_that_contradict_each_other_are_refused(write_mat73):
    path = write_mat73({"X1": sp.csc_array(A), "X2": B, "Y": Y})
    with h5py.File(path, "r+") as file:
        file["X1/ir"][0] = 9999
    with pytest.raises(FileError, match=r"cannot be read as a file of type MATLAB v7\.3"):
        read(path)


def test_a_file_without_a_matrix(write):
    with pytest.raises(DataError, match=r"the file holds a \(3\)"):
        read(write({"a": np.arange(3)}))


def test_a_suffix_of_hdf5_with_other_content(tmp_path):
    path = tmp_path / "data.h5"
    path.write_bytes(b"not at all")
    with pytest.raises(FileError, match="cannot be read as a file of type HDF5"):
        read(path)
