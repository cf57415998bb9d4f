"""NumPy files: archives by inference, single arrays, and objects that stay pickled."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

from dwcl.data.readers import read
from dwcl.errors import DataError, FileError

RNG = np.random.default_rng(3)
A = RNG.normal(size=(15, 4))
B = RNG.normal(size=(15, 6))
Y = np.repeat([0, 1, 2], 5)


class Trap:
    """An object that tells when it is unpickled."""

    sprung = False

    def __reduce__(self):
        return (spring, ())


def spring():
    Trap.sprung = True
    return 1


def test_an_archive_of_named_arrays(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, rna=A.astype(np.float32), protein=B, labels=Y, k=3)
    found = read(path)
    assert found.names == ("rna", "protein")
    assert found["rna"].dtype == np.float32
    np.testing.assert_array_equal(found.labels, Y)
    assert found.provenance.layout[-2:] == ("ignored: k (a number)", "type: NumPy archive")


def test_an_archive_of_numbered_arrays_in_columns(tmp_path):
    path = tmp_path / "data.npz"
    np.savez_compressed(path, A.T, B.T)
    found = read(path)
    assert found.names == ("arr_0", "arr_1")
    np.testing.assert_array_equal(found["arr_1"], B)


def test_objects_in_an_archive_are_never_unpickled(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, X=np.array([Trap(), A], dtype=object), W=B, Y=Y)
    with pytest.raises(DataError, match="'X' should hold the views, but it is an array of Python"):
        read(path)
    np.savez(path, note=np.array([Trap()], dtype=object), rna=A, protein=B, labels=Y)
    assert "note (an array of Python objects, which are never unpickled" in "".join(
        read(path).provenance.layout
    )
    np.savez(path, note=np.array([Trap()], dtype=object))
    with pytest.raises(DataError, match=r"No table .* never unpickled"):
        read(path)
    assert not Trap.sprung


def test_a_single_array_is_one_view_with_samples_in_rows(tmp_path):
    path = tmp_path / "table.npy"
    np.save(path, A.T)
    found = read(path)
    assert found.names == ("view1",)
    np.testing.assert_array_equal(found["view1"], A.T)
    assert found.labels is None
    np.testing.assert_array_equal(read(path, transpose=True)["view1"], A)


def test_labels_turn_a_single_array(tmp_path):
    np.save(tmp_path / "table.npy", A.T)
    np.save(tmp_path / "y.npy", Y[:, None])
    found = read(tmp_path / "table.npy", labels=str(tmp_path / "y.npy"))
    np.testing.assert_array_equal(found["view1"], A)
    np.testing.assert_array_equal(found.labels, Y)
    assert "labels: y.npy, 3 values" in found.provenance.layout


def test_images_in_a_single_array(tmp_path):
    images = RNG.normal(size=(15, 4, 4))
    np.save(tmp_path / "images.npy", images)
    np.testing.assert_array_equal(read(tmp_path / "images.npy")["view1"], images.reshape(15, 16))


def test_single_arrays_that_are_no_table(tmp_path):
    path = tmp_path / "table.npy"
    np.save(path, Y)
    with pytest.raises(DataError, match=r"has shape \(15,\); a table .* folder of .npy files"):
        read(path)
    np.save(path, np.array([Trap()], dtype=object))
    with pytest.raises(DataError, match=r"is an array of Python objects.*Save numbers"):
        read(path)
    np.save(path, np.array([["a", "b"]]))
    with pytest.raises(DataError, match=r"the file holds view1 \(text\)"):
        read(path)
    assert not Trap.sprung


def test_complex_numbers_are_refused(tmp_path):
    np.save(tmp_path / "table.npy", A + 1j)
    with pytest.raises(DataError, match="Complex data not supported"):
        read(tmp_path / "table.npy")


@pytest.mark.parametrize("name", ["data.npz", "data.npy"])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.98])
def test_truncated_files_are_refused(tmp_path, name, part):
    path = tmp_path / name
    if name.endswith("z"):
        np.savez(path, rna=A, protein=B)
    else:
        np.save(path, A)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(FileError, match="damaged or its download stopped early"):
        read(path)


def test_damage_inside_a_member_is_found_by_its_checksum(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, rna=A, protein=B)
    content = bytearray(path.read_bytes())
    content[300] ^= 255
    path.write_bytes(content)
    with pytest.raises(FileError, match="CRC"):
        read(path)


def test_other_zip_archives_are_of_no_known_format(tmp_path):
    path = tmp_path / "book.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xl/workbook.xml", "<x/>")
    with pytest.raises(FileError, match="of no known format"):
        read(path)
