"""Folders with one file per view: ``.npy`` arrays, or tables of text.

A file whose name means labels (``labels.csv``, ``y.npy`` …) holds the labels, of whichever kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dwcl.data.readers.arrays import load_array
from dwcl.data.readers.base import Reading, Request, register
from dwcl.data.readers.csvfile import SUFFIXES as TEXT_SUFFIXES
from dwcl.data.readers.csvfile import read_table
from dwcl.data.readers.labels import attach, read_labels
from dwcl.data.readers.layout import infer
from dwcl.data.readers.names import CLEAR_NAMES, plain
from dwcl.data.readers.orientation import as_told
from dwcl.data.readers.tabular import several
from dwcl.errors import DataError, FileError, nearest


@register("folder", of_folders=True)
def read_folder(path: Path, request: Request) -> Reading:
    """Read a folder of tables as views named after their files."""
    arrays = _by_stem(path, (".npy",))
    texts = _by_stem(path, TEXT_SUFFIXES)
    label_file, label_stems = _labels(path, {**texts, **arrays}, request)
    arrays, texts = (
        _chosen(files, request.views, {**texts, **arrays}, label_stems) for files in (arrays, texts)
    )
    if arrays and texts:
        raise DataError(
            f"The folder {path} can be read in two ways: {', '.join(arrays)} from .npy files, or "
            f"{', '.join(texts)} from text files. Say which with views, or use two folders."
        )
    if not arrays and not texts:
        raise FileError(
            f"There is nothing to read in the folder {path}. One .npy, .csv or .tsv file per view "
            "is expected; name single files (.mat, .npz, .h5, .parquet …) themselves."
        )
    files = arrays or texts
    own_labels = None if label_file is None else read_labels(label_file)
    request = replace(request, labels=None, given_labels=own_labels or request.given_labels)
    if arrays:
        variables = {stem: load_array(file) for stem, file in arrays.items()}
        read = infer(variables, request, rows_in_doubt=len(variables) == 1)
        read = read.of_type("folder of NumPy arrays")
    else:
        turned = as_told(texts, request.transpose or False)
        tables = {
            stem: read_table(file, request, in_columns=turned[stem]) for stem, file in texts.items()
        }
        read = several(tables, request).of_type("folder of delimited text")
    if label_file is None or own_labels is None:
        return replace(read, files=tuple(files.values()))
    return attach(replace(read, files=(*files.values(), label_file)), own_labels)


def _by_stem(folder: Path, suffixes: tuple[str, ...]) -> dict[str, Path]:
    """Return the files with one of the endings by their names without it, view2 before view10."""
    found: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        ending = next((s for s in suffixes if file.name.lower().endswith(s)), None)
        if ending is None or not file.is_file() or file.name.startswith("."):
            continue
        stem = file.name[: -len(ending)]
        if stem in found:
            raise DataError(
                f"{found[stem].name} and {file.name} in {folder} would both be the view '{stem}'. "
                "Keep one of them."
            )
        found[stem] = file
    return {stem: found[stem] for stem in sorted(found, key=_natural)}


def _natural(stem: str) -> list[tuple[int, str]]:
    parts = (part for part in re.split(r"(\d+)", stem) if part)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _labels(
    folder: Path, files: Mapping[str, Path], request: Request
) -> tuple[Path | None, set[str]]:
    """Return the file to take labels from, and the stems of all files that are no views."""
    wanted = request.views or ()
    stems = {stem for stem in files if plain(stem) in CLEAR_NAMES and stem not in wanted}
    if request.labels is not None:
        if request.labels not in files:
            raise DataError(
                f"labels='{request.labels}' is neither a file of the folder {folder} (without its "
                f"ending) nor another file. {nearest(request.labels, files)}"
            )
        return files[request.labels], {*stems, request.labels}
    if request.given_labels is not None or not stems:
        return None, stems
    if len(stems) > 1:
        raise DataError(
            f"The labels can be read in two ways: from {' or '.join(sorted(stems))} in {folder}. "
            "Say which with labels."
        )
    return files[next(iter(stems))], stems


def _chosen(
    files: Mapping[str, Path],
    wanted: Sequence[str] | None,
    all_files: Mapping[str, Path],
    label_stems: set[str],
) -> dict[str, Path]:
    if wanted is None:
        # Texts that end in .txt are as often words about the data as data.
        return {
            stem: file
            for stem, file in files.items()
            if stem not in label_stems and ".txt" not in file.suffixes
        }
    for stem in wanted:
        if stem not in all_files:
            raise DataError(f"There is no view '{stem}'. {nearest(stem, all_files)}")
    return {stem: files[stem] for stem in wanted if stem in files}
