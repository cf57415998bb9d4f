"""What all readers share: finding the file, its reader, and the words for damage."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from dwcl.data.readers import read
from dwcl.data.readers.base import check_exists, known_suffixes, reader_for, reading
from dwcl.errors import DataError, FileError


def test_a_missing_file_is_named_with_the_nearest(tmp_path):
    (tmp_path / "Scene_15.mat").write_bytes(b"x")
    with pytest.raises(FileError, match=r"'Scene15\.mat' in .*\. Did you mean 'Scene_15\.mat'\?"):
        read(tmp_path / "Scene15.mat")
    with pytest.raises(FileError, match=r"'zzz\.csv' in .*\. Check the path\."):
        read(tmp_path / "zzz.csv")
    with pytest.raises(FileError, match=r"the folder .*nowhere does not exist"):
        check_exists(tmp_path / "nowhere" / "a.mat")


@pytest.mark.parametrize("name", ["a.mat", "a.npz", "a.npy", "a.h5", "a.csv", "a.parquet", "a"])
def test_an_empty_file_is_refused(tmp_path, name):
    path = tmp_path / name
    path.touch()
    with pytest.raises(FileError, match=r"is empty \(0 bytes\)"):
        read(path)


def test_an_unknown_suffix_is_refused_with_the_known_ones(tmp_path):
    path = tmp_path / "data.rds"
    path.write_bytes(b"RDX3")
    with pytest.raises(
        FileError, match=r"no known format\. .*\.npz.*\.csv.*\.mat.* folder of \.npy"
    ):
        read(path)
    assert {".mat", ".npz", ".npy", ".h5", ".csv", ".tsv", ".parquet"} <= set(known_suffixes())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "pointer of Git LFS.*git lfs pull"),
        (b"\n<!DOCTYPE html><html>", "is a web page, not data"),
        (b"<html><body>404", "is a web page, not data"),
    ],
)
def test_downloads_that_are_something_else(tmp_path, content, message):
    path = tmp_path / "data.mat"
    path.write_bytes(content)
    with pytest.raises(FileError, match=message):
        read(path)


def test_source_and_hash_are_those_of_the_file(tmp_path):
    path = tmp_path / "data.npy"
    np.save(path, np.eye(3, 2))
    provenance = read(str(path)).provenance
    assert provenance.source == str(path)
    assert provenance.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_name_of_one_view_need_not_be_in_a_list(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, rna=np.eye(4, 2), age=np.eye(4, 3), y=np.arange(4))
    assert read(path, views="age").names == ("age",)
    np.savez(path, rna=np.eye(4, 2), age=np.eye(2, 3))
    assert read(path, transpose="rna").widths == (4, 3)


def test_a_file_of_labels_that_is_not_there(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, rna=np.eye(4, 2))
    with pytest.raises(DataError, match=r"labels='y\.csv' is neither a variable of the data nor a"):
        read(path, labels="y.csv")


def test_content_goes_before_the_suffix(tmp_path):
    path = tmp_path / "data.csv"
    with path.open("wb") as file:
        np.save(file, np.eye(2))
    assert reader_for(path).name == "NumPy array"


def test_errors_of_libraries_become_one():
    path = Path("data.mat")
    message = r"as a thing: the file is damaged .* \(first\)\. Get it"
    with pytest.raises(FileError, match=message), reading(path, "a thing"):
        raise RuntimeError("first\nsecond")
    with pytest.raises(FileError, match=r"\(RuntimeError\)"), reading(path, "a thing"):
        raise RuntimeError
    message = "asks for more memory than there is"
    with pytest.raises(FileError, match=message), reading(path, "a thing"):
        raise MemoryError
    message = r"data\.mat may not be read: denied\. Check its rights"
    with pytest.raises(FileError, match=message), reading(path, "a thing"):
        raise PermissionError(13, "denied")
    with pytest.raises(DataError, match=r"^ours$"), reading(path, "a thing"):
        raise DataError("ours")
