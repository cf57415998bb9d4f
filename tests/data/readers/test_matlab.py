"""MATLAB files of versions 4 to 7.2, written by scipy in the layouts of public files."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dwcl.data.readers import read
from dwcl.errors import DataError, FileError

RNG = np.random.default_rng(1)
A = RNG.normal(size=(15, 4))
B = RNG.normal(size=(15, 6))
Y = np.repeat([1, 2, 3], 5).reshape(-1, 1).astype(np.uint8)


@pytest.fixture
def save(tmp_path):
    def write(variables, name="data.mat", **options):
        path = tmp_path / name
        scipy.io.savemat(path, variables, **options)
        return path

    return write


PUBLIC = {
    "Scene_15": (4485, (20, 59, 40), 15),
    "MSRC_v1": (210, (24, 576, 512, 256, 254), 7),
    "HW": (2000, (216, 76, 64, 6, 240, 47), 10),
    "PIE_face_10": (680, (484, 256, 279), 68),
    "BBCSport": (544, (3183, 3203), 5),
    "synthetic3d": (600, (3, 3, 3), 3),
}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_files_are_understood_without_any_choice(shared_data, name):
    n, widths, classes = PUBLIC[name]
    found = read(shared_data / f"{name}.mat")
    assert (found.n_samples, found.widths, found.n_label_values) == (n, widths, classes)
    assert found.provenance.layout[-1] == "type: MATLAB v5"


def test_public_files_keep_types_values_and_remarks(shared_data):
    hw = read(shared_data / "HW.mat")
    assert hw.names == ("X1", "X2", "X3", "X4", "X5", "X6")
    assert hw["X1"].dtype == np.uint16
    np.testing.assert_array_equal(hw.labels[[0, 1999]], [1, 10])
    sport = read(shared_data / "BBCSport.mat")
    assert all(sp.issparse(view) and view.format == "csr" for view in sport.arrays)
    raw = scipy.io.loadmat(shared_data / "BBCSport.mat")["X"][0, 1]
    assert abs(sport["view2"] - sp.csr_array(raw.T)).sum() == 0
    ignored = next(
        line
        for line in read(shared_data / "synthetic3d.mat").provenance.layout[::-1]
        if line.startswith("ignored")
    )
    assert "rand_num_test (300 × 10)" in ignored
    assert "seedCV (a struct or an object of MATLAB)" in ignored


@pytest.mark.parametrize("options", [{}, {"do_compression": True}])
def test_a_cell_of_views_is_read(save, cell, options):
    found = read(save({"X": cell(A, B.astype(np.float32)), "Y": Y}, **options))
    np.testing.assert_array_equal(found["view1"], A)
    assert found["view2"].dtype == np.float32
    np.testing.assert_array_equal(found.labels, Y[:, 0])


def test_a_nested_cell_is_opened(save, cell):
    found = read(save({"X": cell(cell(A, B)), "Y": Y}))
    assert found.widths == (4, 6)


def test_version_4_is_read(save):
    found = read(save({"X1": A, "X2": B, "Y": Y.astype(float)}, format="4"))
    np.testing.assert_array_equal(found["X2"], B)
    assert found.provenance.layout[-1] == "type: MATLAB v4"


def test_data_with_labels_repeated_for_every_view(save, cell):
    found = read(save({"data": cell(A.T, B.T), "truelabel": cell(Y, Y)}))
    np.testing.assert_array_equal(found["view1"], A)
    np.testing.assert_array_equal(found.labels, Y[:, 0])


def test_data_with_truth(save, cell):
    assert read(save({"data": cell(A, B), "truth": Y.T})).n_label_values == 3


def test_one_view_with_graphs(save, cell):
    graph = sp.csc_array(np.eye(15)[:, ::-1] + np.eye(15))
    found = read(save({"X": cell(A.T, graph, np.ones((15, 15))), "Y": Y}))
    assert found.names == ("view1",)
    assert "left out: view2, view3 (graphs" in "\n".join(found.provenance.layout)


def test_images_of_one_channel(save):
    images = RNG.integers(0, 255, size=(15, 5, 5, 1), dtype=np.uint8)
    found = read(save({"X1": images, "X2": images + 1, "Y": Y}))
    np.testing.assert_array_equal(found["X1"], images.reshape(15, 25))


def test_labels_as_words(save, cell):
    words = np.array(["car", "bus", "cat"])[Y[:, 0] - 1]
    found = read(save({"X": cell(A, B), "label": cell(*words).T}))
    np.testing.assert_array_equal(found.labels, words)


def test_logical_and_integer_tables_keep_their_types(save, cell):
    found = read(save({"X": cell(A > 0, (B * 9).astype(np.int16)), "Y": Y}))
    assert found["view1"].dtype.kind in "bu"
    assert found["view2"].dtype == np.int16


def test_structs_text_and_functions_are_passed_over(save, cell):
    path = save({"X": cell(A, B), "Y": Y, "about": {"a": 1}, "note": "hello", "k": 3})
    (ignored,) = (line for line in read(path).provenance.layout if line.startswith("ignored"))
    assert ignored == "ignored: about (a struct or an object of MATLAB), note (text), k (1 × 1)"


def test_a_missing_value_comes_through(save, cell):
    holes = A.copy()
    holes[2, 3] = np.nan
    np.testing.assert_array_equal(read(save({"X": cell(holes, B), "Y": Y}))["view1"], holes)


def test_one_sample_is_read(save, cell):
    assert read(save({"X": cell(A[:1], B[:1]), "Y": Y[:1]})).n_samples == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    n=st.integers(2, 9),
    widths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    in_columns=st.booleans(),
    numbered=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_what_scipy_saves_in_either_orientation_reads_back(
    tmp_path, n, widths, in_columns, numbered, seed
):
    rng = np.random.default_rng(seed)
    tables = [rng.normal(size=(n, width)) for width in widths if width != n] or [
        rng.normal(size=(n, n + 1))
    ]
    stored = [table.T if in_columns else table for table in tables]
    content = {"Y": rng.integers(0, 3, size=(1, n))}
    cell = np.empty((len(stored), 1), dtype=object)
    cell[:, 0] = stored
    if numbered and len(stored) > 1 and max(widths) > 1:
        content |= {f"X{i}": table for i, table in enumerate(stored, 1)}
    else:
        for i, table in enumerate(stored):
            cell[i, 0] = table
        content["X"] = cell
    path = tmp_path / "saved.mat"
    scipy.io.savemat(path, content)
    found = read(path)
    assert len(found.arrays) == len(tables)
    for view, table in zip(found.arrays, tables, strict=True):
        np.testing.assert_array_equal(view, table)
    np.testing.assert_array_equal(found.labels, content["Y"][0])


# -- bad files


@pytest.mark.parametrize("options", [{}, {"do_compression": True}])
def test_a_truncated_file_gives_one_error_wherever_it_ends(save, cell, options):
    whole = save({"X": cell(A, B), "Y": Y, "Z": A}, **options)
    content = whole.read_bytes()
    cut = whole.with_name("cut.mat")
    refused = 0
    for length in [*range(1, 400, 7), *range(400, len(content) - 1, 61)]:
        cut.write_bytes(content[:length])
        # A file that ends exactly between two variables is whole in its own eyes.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                read(cut)
            except (FileError, DataError):
                refused += 1
        assert not caught
    assert refused >= 60
    cut.write_bytes(content[:-30])
    with pytest.raises(FileError, match="damaged or its download stopped early"):
        read(cut)


@pytest.mark.parametrize("seed", range(20))
def test_a_file_of_noise_is_refused(tmp_path, seed):
    path = tmp_path / "noise.mat"
    path.write_bytes(np.random.default_rng(seed).bytes(3000))
    with pytest.raises(FileError, match="cannot be read as a MATLAB file"):
        read(path)


def test_a_text_file_called_mat_is_refused(tmp_path):
    path = tmp_path / "text.mat"
    path.write_text("1 2 3\n4 5 6\n")
    with pytest.raises(FileError, match="cannot be read as a MATLAB file"):
        read(path)


def test_a_file_without_a_matrix_lists_what_it_holds(save):
    with pytest.raises(DataError, match=r"No table .* was found; the file holds note \(text\)"):
        read(save({"note": "hello"}))


def test_views_of_different_lengths_are_refused(save, cell):
    with pytest.raises(DataError, match="different numbers of samples: 'view1' 15 × 4, 'view2' 14"):
        read(save({"X": cell(A, B[:14]), "Y": Y}))


def test_labels_of_another_length_are_refused(save, cell):
    with pytest.raises(DataError, match="There are 14 labels, but the views are 'view1' 15 × 4"):
        read(save({"X": cell(A, B), "Y": Y[:14]}))


def test_complex_numbers_are_refused_by_the_name_of_the_view(save, cell):
    with pytest.raises(DataError, match="Complex data not supported: view 'view2'"):
        read(save({"X": cell(A, B + 1j), "Y": Y}))


def test_two_orientations_are_refused_until_one_is_chosen(save, cell):
    path = save({"X": cell(A, A + 1)})
    with pytest.raises(DataError, match="two ways: 15 samples in rows, or 4 samples in columns"):
        read(path)
    assert read(path, transpose=False).n_samples == 15
    assert read(path, transpose=True).n_samples == 4


def test_an_unknown_view_is_named_with_the_nearest(save, cell):
    with pytest.raises(DataError, match=r"no view or variable 'veiw2'\. Did you mean 'view2'\?"):
        read(save({"X": cell(A, B), "Y": Y}), views=["veiw2"])
