from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dwcl.data import fashion
from dwcl.data.fashion import build_fashion, built_with, deal, read_idx
from dwcl.errors import DataError, FileError, SettingError

N_CLASSES = 3
PER_CLASS = 4


def idx(values: NDArray[np.uint8]) -> bytes:
    header = struct.pack(f">I{values.ndim}I", 0x0800 + values.ndim, *values.shape)
    return header + values.tobytes()


def images_numbered(start: int, count: int) -> NDArray[np.uint8]:
    """Images of 2 × 3 pixels, each with its own number in its first pixel."""
    images = np.random.default_rng(start).integers(0, 256, (count, 2, 3), dtype=np.uint8)
    images[:, 0, 0] = np.arange(start, start + count)
    return images


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sixty fake images of three classes: the class is the number modulo 3."""
    folder = tmp_path / "idx"
    folder.mkdir()
    for part, start, count in (("train", 0, 45), ("t10k", 45, 15)):
        labels = (np.arange(start, start + count) % N_CLASSES).astype(np.uint8)
        packed = gzip.compress(idx(images_numbered(start, count)))
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(packed)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))
    return folder


def build(folder: Path, out: Path, seed: int = 0, per_class: int = PER_CLASS) -> Path:
    return build_fashion(folder, out, seed, per_class=per_class, check_source=False)


def test_a_sample_is_three_different_images_of_one_class(folder: Path, tmp_path: Path) -> None:
    path = build(folder, tmp_path / "out.npz")
    with np.load(path, allow_pickle=False) as made:
        views = [made[name] for name in ("view1", "view2", "view3")]
        labels = made["labels"]
    everything = np.concatenate([images_numbered(0, 45), images_numbered(45, 15)]).reshape(60, 6)
    assert all(view.shape == (N_CLASSES * PER_CLASS, 6) for view in views)
    assert all(view.dtype == np.float32 for view in views)
    numbers = np.stack([np.rint(view[:, 0] * 255).astype(int) for view in views])
    assert (numbers % N_CLASSES == labels).all()
    assert len(set(numbers.ravel())) == numbers.size
    for view, used in zip(views, numbers, strict=True):
        np.testing.assert_array_equal(view, (everything[used] / 255).astype(np.float32))
    assert np.bincount(labels).tolist() == [PER_CLASS] * N_CLASSES
    assert (np.diff(labels) != 0).sum() > N_CLASSES - 1  # shuffled, not class after class


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_the_same_seed_gives_the_same_bytes(seed: int, folder: Path, tmp_path: Path) -> None:
    first = build(folder, tmp_path / "1.npz", seed).read_bytes()
    assert build(folder, tmp_path / "2.npz", np.int64(seed)).read_bytes() == first
    assert build(folder, tmp_path / "3.npz", seed + 1).read_bytes() != first


def test_packed_and_unpacked_images_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    first = build(folder, tmp_path / "1.npz").read_bytes()
    packed = folder / "train-images-idx3-ubyte.gz"
    (folder / "train-images-idx3-ubyte").write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()
    assert build(folder, tmp_path / "2.npz").read_bytes() == first


def test_the_callers_random_state_is_untouched(folder: Path, tmp_path: Path) -> None:
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    build(folder, tmp_path / "1.npz")
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_how_it_was_built_is_recorded(folder: Path, tmp_path: Path) -> None:
    path = build(folder, tmp_path / "out.npz", seed=5)
    assert built_with(path) == ("built with seed 5, 4 samples per class",)
    with np.load(path, allow_pickle=False) as made:
        record = json.loads(str(made["provenance"]))
    assert record["seed"] == 5
    assert set(record["sha256"]) == set(fashion.ORIGINAL)
    np.savez(tmp_path / "other.npz", view1=np.zeros((2, 2)))
    assert built_with(tmp_path / "other.npz") == ()


def test_it_is_put_where_the_catalogue_finds_it(folder: Path, tmp_path: Path) -> None:
    path = build_fashion(folder, home=tmp_path / "home", per_class=PER_CLASS, check_source=False)
    assert path == tmp_path / "home" / "fashion.npz"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("seed", range(5))
def test_dealing_uses_every_image_once(seed: int) -> None:
    labels = np.repeat(np.array([4, 9], dtype=np.uint8), 6)
    rows = deal(labels, 2, np.random.default_rng(seed))
    assert rows.shape == (4, 3)
    assert sorted(rows.ravel().tolist()) == list(range(12))
    assert (labels[rows] == labels[rows[:, :1]]).all()


def test_too_few_images_of_a_class(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Class 0 has 20 images; 7 samples of 3 views need 21"):
        build(folder, tmp_path / "out.npz", per_class=7)
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize("seed", [-1, 1.5, None, True])
def test_a_seed_that_is_none(seed: object, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="a whole number from 0 is expected"):
        build(folder, tmp_path / "out.npz", seed)  # type: ignore[arg-type]


def test_settings_that_make_no_sense(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="at least one sample per class"):
        build(folder, tmp_path / "out.npz", per_class=0)
    with pytest.raises(FileError, match=r"Cannot write .*none/out\.npz"):
        build(folder, tmp_path / "none" / "out.npz")
    with pytest.raises(SettingError, match=r"out\.mat; give a name that ends in \.npz"):
        build(folder, tmp_path / "out.mat")


def test_without_the_images_it_says_how_to_get_them(folder: Path, tmp_path: Path) -> None:
    (folder / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(FileError, match=r"no t10k-labels-idx1-ubyte \(.*dataset-fashion-mnist"):
        build(folder, tmp_path / "out.npz")
    with pytest.raises(FileError, match="no train-images-idx3-ubyte, train-labels-idx1-ubyte, t10"):
        build(tmp_path / "nowhere", tmp_path / "out.npz")


def test_the_default_folder_is_debians(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fashion, "DEBIAN_FOLDER", tmp_path / "debian")
    with pytest.raises(FileError, match=f"not complete in {tmp_path}/debian"):
        build_fashion(out=tmp_path / "out.npz")


def test_other_images_under_the_same_names_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not the Fashion-MNIST images: train-images-idx3-ubyte"):
        build_fashion(folder, tmp_path / "out.npz")
    assert not (tmp_path / "out.npz").exists()


def test_counts_that_do_not_match(folder: Path, tmp_path: Path) -> None:
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx(np.zeros(14, dtype=np.uint8)))
    with pytest.raises(DataError, match=r"has 15 images and .*t10k-labels.* 14 labels"):
        build(folder, tmp_path / "out.npz")


def test_images_of_different_sizes(folder: Path, tmp_path: Path) -> None:
    packed = gzip.compress(idx(np.zeros((15, 4, 4), dtype=np.uint8)))
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(packed)
    with pytest.raises(DataError, match="different sizes: 2×3 and 4×4 pixels"):
        build(folder, tmp_path / "out.npz")


def test_an_idx_file_is_read(tmp_path: Path) -> None:
    values = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    path = tmp_path / "values"
    path.write_bytes(bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]) + values.tobytes())
    read, _ = read_idx(path, 3)
    np.testing.assert_array_equal(read, values)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is truncated: 0 bytes, the header alone has 8"),
        (b"\0\0\x08\x01\0\0\0\x02\1", "is truncated: 9 bytes; its header announces 10"),
        (b"\0\0\x08\x01\0\0\0\x01\1\1", "has bytes after its end: 10 bytes; .* announces 9"),
        (b"\0\0\x08\x03\0\0\0\x01\1", "begins with 0x00000803; .* begins with 0x00000801"),
        (b"<!DOCTYPE html>", "begins with 0x3c21444f"),
    ],
)
def test_damaged_idx_files(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "labels"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_idx(path, 1)


@pytest.mark.parametrize("keep", [0.5, 0.98])
def test_truncated_packing(keep: float, tmp_path: Path) -> None:
    whole = gzip.compress(idx(images_numbered(0, 40)))
    path = tmp_path / "images.gz"
    path.write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(DataError, match="damaged or truncated"):
        read_idx(path, 3)
    path.write_bytes(b"no gzip at all")
    with pytest.raises(DataError, match="damaged or truncated"):
        read_idx(path, 3)


def test_an_unreadable_file(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    with pytest.raises(FileError, match=r"Cannot read .*images: Is a directory"):
        read_idx(tmp_path / "images", 3)


def test_the_original_images(tmp_path: Path) -> None:
    if not fashion.DEBIAN_FOLDER.is_dir():
        pytest.skip(f"the Fashion-MNIST images are not in {fashion.DEBIAN_FOLDER}")
    # Few samples per class keep the test quick; the images are all read and checked.
    path = build_fashion(out=tmp_path / "fashion.npz", per_class=20)
    with np.load(path, allow_pickle=False) as made:
        assert made["view3"].shape == (200, 784)
        assert made["view1"].max() == 1.0
        assert np.bincount(made["labels"]).tolist() == [20] * 10
