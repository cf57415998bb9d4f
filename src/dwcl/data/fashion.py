"""The paper's Fashion data set, made from the Fashion-MNIST images.

A sample is three different images of one kind of clothing, one per view; pixels are divided by
255. The images come as IDX files: a big-endian header of the element type, the number of
dimensions and the dimensions, then the bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import math
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dwcl.data.home import data_home, make_home
from dwcl.errors import DataError, FileError, SettingError
from dwcl.files import atomic

logger = logging.getLogger(__name__)

DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")
"""Where Debian's package ``dataset-fashion-mnist`` puts the images."""

N_VIEWS = 3

PARTS = (
    ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
)

# The digits of MNIST come in files of the same names, so the name proves nothing. The hashes are
# of the unpacked bytes: every packing has others.
ORIGINAL: Mapping[str, str] = {
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}


def build_fashion(
    folder: str | Path | None = None,
    out: str | Path | None = None,
    seed: int = 0,
    home: str | Path | None = None,
    *,
    per_class: int = 1000,
    check_source: bool = True,
) -> Path:
    """Build the paper's Fashion: 10,000 samples, three views of 784, ten classes.

    Of every class, 3 × `per_class` images are drawn without replacement and dealt to the views,
    so no image occurs twice. The samples are then shuffled. The result depends on the seed and
    on the images only: the same seed gives the same bytes.

    Parameters
    ----------
    folder : path, optional
        Folder with the four IDX files, packed (.gz) or not. Default: that of Debian's package.
    out : path, optional
        The .npz file to write. Default: ``fashion.npz`` in the storage folder, where
        ``catalogue:fashion`` finds it.
    seed : int
        Which images make which sample. The paper does not say; 0 is dwcl's choice.
    home : path, optional
        Storage folder; see :func:`dwcl.data.home.data_home`.
    per_class : int
        Samples per class.
    check_source : bool
        Refuse files that are not the original Fashion-MNIST images.

    Returns
    -------
    Path
        The file, with ``view1`` … ``view3`` (n × d, float32 in 0 … 1, so that any reader gets
        the right values), ``labels`` (n) and ``provenance`` (a JSON text).

    Raises
    ------
    FileError
        If the images are not there (the message says how to get them) or the file cannot be
        written.
    DataError
        If an IDX file is damaged, or has other images or too few of a class.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise SettingError(f"seed is {seed!r}; a whole number from 0 is expected.")
    target = data_home(home) / "fashion.npz" if out is None else Path(out).expanduser()
    if target.suffix != ".npz":
        raise SettingError(f"The file to write is {target}; give a name that ends in .npz.")
    images, labels, hashes = _read_parts(DEBIAN_FOLDER if folder is None else Path(folder))
    if check_source:
        _check_original(hashes)
    rows = deal(labels, per_class, np.random.default_rng(int(seed)))  # n × v
    made_from = {"seed": int(seed), "samples_per_class": per_class, "sha256": hashes}
    views = [images[rows[:, v]].astype(np.float32) / np.float32(255) for v in range(N_VIEWS)]
    if out is None:
        make_home(target.parent)
    with atomic(target) as partial, partial.open("wb") as file:
        np.savez_compressed(
            file,
            view1=views[0],
            view2=views[1],
            view3=views[2],
            labels=labels[rows[:, 0]],
            provenance=np.array(json.dumps(made_from, sort_keys=True)),
        )
    logger.info("built %s: %d samples, seed %d", target, len(rows), seed)
    return target


def built_with(path: Path) -> tuple[str, ...]:
    """Say how a file of :func:`build_fashion` was made, one line; nothing for another file."""
    with np.load(path, allow_pickle=False) as arrays:
        if "provenance" not in arrays:
            return ()
        made = json.loads(str(arrays["provenance"]))
    return (f"built with seed {made['seed']}, {made['samples_per_class']} samples per class",)


def deal(labels: NDArray[np.uint8], per_class: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Choose the images of every sample.

    Parameters
    ----------
    labels : array of n_images
        Class of each image.
    per_class : int
        Samples per class.
    rng : Generator
        Source of randomness.

    Returns
    -------
    array of n × 3
        Positions of the images, all different; those of a row are of one class.
    """
    if per_class < 1:
        raise SettingError(f"per_class is {per_class}; at least one sample per class is needed.")
    need = N_VIEWS * per_class
    blocks = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if len(members) < need:
            raise DataError(
                f"Class {label} has {len(members):,} images; {per_class:,} samples of "
                f"{N_VIEWS} views need {need:,}."
            )
        blocks.append(rng.permutation(members)[:need].reshape(per_class, N_VIEWS))
    return rng.permutation(np.concatenate(blocks), axis=0)


def read_idx(path: Path, dimensions: int) -> tuple[NDArray[np.uint8], str]:
    """Read an IDX file of bytes, packed or not.

    Returns
    -------
    values : array of uint8
    sha256 : str
        Hash of the unpacked bytes.
    """
    raw = _unpacked(path)
    head = 4 + 4 * dimensions
    magic = 0x0800 + dimensions  # two zero bytes, the type "unsigned byte", the dimensions
    if len(raw) < head:
        raise DataError(f"{path} is truncated: {len(raw)} bytes, the header alone has {head}.")
    (got,) = struct.unpack_from(">I", raw)
    if got != magic:
        raise DataError(
            f"{path} begins with 0x{got:08x}; an IDX file of bytes in {dimensions} dimension(s) "
            f"begins with 0x{magic:08x}. Give the file of the original distribution."
        )
    shape = struct.unpack_from(f">{dimensions}I", raw, 4)
    expected = head + math.prod(shape)
    if len(raw) != expected:
        what = "is truncated" if len(raw) < expected else "has bytes after its end"
        raise DataError(
            f"{path} {what}: {len(raw):,} bytes; its header announces {expected:,}. "
            "Get the file again."
        )
    values = np.frombuffer(raw, dtype=np.uint8, offset=head).reshape(shape)
    return values, hashlib.sha256(raw).hexdigest()


def _read_parts(
    folder: Path,
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], dict[str, str]]:
    """Read all four files: images as rows, their labels, the hashes by file."""
    folder = folder.expanduser()
    paths = {stem: _locate(folder, stem) for part in PARTS for stem in part}
    missing = [stem for stem, path in paths.items() if path is None]
    if missing:
        raise FileError(
            f"The Fashion-MNIST images are not complete in {folder}: no {', '.join(missing)} "
            "(.gz or not). On Debian and Ubuntu install the package dataset-fashion-mnist; "
            "elsewhere get the four IDX files of the original distribution "
            "(https://github.com/zalandoresearch/fashion-mnist) and name their folder: "
            "dwcl data build fashion --from FOLDER"
        )
    read = {
        stem: read_idx(path, 3 if "images" in stem else 1) for stem, path in paths.items() if path
    }
    for images, labels in PARTS:
        counts = len(read[images][0]), len(read[labels][0])
        if counts[0] != counts[1]:
            raise DataError(
                f"{paths[images]} has {counts[0]:,} images and {paths[labels]} {counts[1]:,} "
                "labels; one label per image is expected. Get both files from one distribution."
            )
    sizes = {read[images][0].shape[1:] for images, _ in PARTS}
    if len(sizes) > 1:
        listed = " and ".join(f"{height}×{width}" for height, width in sorted(sizes))
        raise DataError(f"The images in {folder} have different sizes: {listed} pixels.")
    return (
        np.concatenate([read[images][0].reshape(len(read[images][0]), -1) for images, _ in PARTS]),
        np.concatenate([read[labels][0] for _, labels in PARTS]),
        {stem: sha256 for stem, (_, sha256) in read.items()},
    )


def _locate(folder: Path, stem: str) -> Path | None:
    candidates = (folder / stem, folder / f"{stem}.gz")
    return next((path for path in candidates if path.is_file()), None)


def _unpacked(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is damaged or truncated ({error}). Get the file again.") from error
    except OSError as error:
        raise FileError(f"Cannot read {path}: {error.strerror or error}.") from error


def _check_original(hashes: Mapping[str, str]) -> None:
    other = [stem for stem, sha256 in hashes.items() if sha256 != ORIGINAL[stem]]
    if other:
        raise DataError(
            f"These are not the Fashion-MNIST images: {', '.join(other)} has another content "
            "(MNIST, for example, has files of the same names). Name the folder of Fashion-MNIST; "
            "for images of your own call dwcl.data.fashion.build_fashion with check_source=False."
        )
