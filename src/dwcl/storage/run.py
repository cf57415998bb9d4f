"""A run folder: what was done, what came out, and the model, for people and for programs.

======================  ========================================================================
``labels.csv``          sample id, cluster, distance to the own centre and to the next one
``model.json``          the model, with ``model.safetensors``
``history.jsonl``       one line per epoch and per assessment of the views
``run.json``            data with hash, versions, settings, seed, threads, precision, times, scores
======================  ========================================================================
"""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
import torch
from numpy.typing import NDArray
from pydantic import ValidationError

import dwcl
from dwcl.data.multiview import MultiView
from dwcl.errors import DwclError, FileError, ModelError
from dwcl.files import (
    finite,
    make_folder,
    sync_folder,
    umask,
    unwritable,
    write_json,
    write_text,
)
from dwcl.methods.base import DeepMultiViewClusterer
from dwcl.methods.settings import plain_settings
from dwcl.methods.sources import pick_device
from dwcl.storage.descriptions import RECORDS, Reading, RunFacts, damaged, in_words
from dwcl.storage.model import save_model, settings_of
from dwcl.storage.unfinished import SUFFIX, what_to_do
from dwcl.training.callbacks import Record

LABEL_COLUMNS = ("sample", "cluster", "distance", "next_distance")


def write_run(
    folder: Path,
    model: DeepMultiViewClusterer,
    data: MultiView,
    *,
    facts: dict[str, Any],
    replace: bool = False,
    workshop: Path | None = None,
) -> Path:
    """Write a whole run folder; it appears under its name only when it is complete.

    A run that it replaces stays whole until then. It is made in the folder `workshop`, which must
    be of the same file system, or else beside its place.
    """
    check_free(folder, replace=replace)
    make_folder(folder.parent)
    workshop = workshop or folder.parent
    try:
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=workshop))
    except OSError as failure:
        raise unwritable(folder, failure) from failure
    former = partial.with_name(f"{partial.name}.former")
    try:
        save_model(model, partial)
        write_text(partial / "labels.csv", labels_csv(data, model.centre_distances(data)))
        write_text(partial / "history.jsonl", history_lines(model.history_))
        write_json(partial / "run.json", {**describe_run(model, data), **facts})
        partial.chmod(0o777 & ~umask())
        if folder.exists():
            folder.replace(former)
        partial.replace(folder)
        sync_folder(folder.parent)  # before anybody removes what the run could be made of again
    except DwclError:
        raise  # a FileError is an OSError too, and has its own words
    except OSError as failure:
        raise unwritable(folder, failure) from failure
    finally:
        if former.exists() and not folder.exists():
            former.replace(folder)
        for leftover in (partial, former):
            shutil.rmtree(leftover, ignore_errors=True)
    return folder


def is_written(folder: Path, model: DeepMultiViewClusterer, data: MultiView) -> bool:
    """Tell whether a run folder holds what fitting this model on these data comes to.

    A model whose seed is yet to be drawn is none that anything could be known of.
    """
    if not (folder / "run.json").is_file():
        return False
    facts = read_run(folder)
    wanted = {
        "method": model.method_name,
        "n_clusters": model.n_clusters,
        "settings": finite(plain_settings(model.get_params(deep=False))),
    }
    same = all(facts.get(name) == value for name, value in wanted.items())
    return same and facts["data"].get("fingerprint") == data.fingerprint()


def check_free(folder: Path, *, replace: bool = False) -> None:
    """Refuse, before any work is done, a place that is taken or cannot be written."""
    if folder.name in ("", "..") or folder.name.endswith(SUFFIX):
        raise FileError(
            f"'{folder}' cannot be the name of a run folder: a folder of its own is expected, "
            f"whose name does not end in {SUFFIX}. Give one with --out, such as runs/first."
        )
    if folder.exists() and not folder.is_dir():
        raise FileError(f"{folder} is a file; give the name of a new folder with --out.")
    if folder.is_dir() and any(folder.iterdir()):
        if not replace:
            raise FileError(
                f"The folder {folder} is there already and not empty; nothing is overwritten. "
                "Give another one with --out, or replace it with --force."
            )
        if not (folder / "run.json").is_file():
            raise FileError(
                f"The folder {folder} is not a run of dwcl, so it is not replaced. "
                "Give another one with --out."
            )
    parent = folder.parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise FileError(
            f"Cannot write {folder}: {parent} is a file. Choose another place with --out."
        )
    if not os.access(parent, os.W_OK | os.X_OK):
        raise FileError(
            f"Cannot write {folder}: no permission in {parent}. Choose another place with --out."
        )


def describe_run(model: DeepMultiViewClusterer, data: MultiView) -> dict[str, Any]:
    """Everything that decided the result, and the results in figures."""
    return {
        "dwcl": dwcl.__version__,
        "method": model.method_name,
        "seed": model.seed_,
        "n_clusters": model.n_clusters,
        "data": {
            "source": data.provenance.source,
            "sha256": data.provenance.sha256,
            "fingerprint": data.fingerprint(),
            "n_samples": data.n_samples,
            "views": dict(zip(data.names, data.widths, strict=True)),
            "label_values": data.n_label_values,
            "layout": list(data.provenance.layout),
        },
        "settings": settings_of(model),
        "scaling": dict(model.scaling_.kinds),
        "notes": list(model.notes_),
        "precision": model.precision_,
        "device": str(pick_device(model.device)),
        "threads": model.threads or torch.get_num_threads(),
        "versions": versions(),
        "machine": {"system": platform.system(), "processor": platform.machine()},
        "seconds": seconds_by_phase(model.history_),
        "cluster_sizes": np.bincount(model.labels_, minlength=model.n_clusters).tolist(),
        "best_view": getattr(model, "best_view_", None),
        "view_quality": getattr(model, "view_quality_", None),
        "pair_weights": getattr(model, "pair_weights_", None),
    }


def versions() -> dict[str, str]:
    """Return the versions of what the figures of a run can depend on."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def labels_csv(data: MultiView, distances: NDArray[np.float32]) -> str:
    """Word the clusters as a table: a sample near two centres shows by its two distances."""
    own, first, second = nearest_two(distances)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(LABEL_COLUMNS)
    columns = (data.sample_ids.tolist(), own.tolist(), first.tolist(), second.tolist())
    for sample, cluster, distance, next_distance in zip(*columns, strict=True):
        writer.writerow([sample, cluster, f"{distance:.6g}", f"{next_distance:.6g}"])
    return text.getvalue()


def nearest_two(
    distances: NDArray[np.float32],
) -> tuple[NDArray[np.intp], NDArray[np.float32], NDArray[np.float32]]:
    """Return the nearest centre of each sample, its distance, and that of the next centre."""
    two = np.sort(distances, axis=1)[:, :2]
    if two.shape[1] < 2:  # one cluster has no next one
        two = np.pad(two, ((0, 0), (0, 1)), constant_values=np.inf)
    return distances.argmin(axis=1), two[:, 0], two[:, 1]


def history_lines(history: Sequence[Record]) -> str:
    """Word the history as JSON lines."""
    return "".join(json.dumps(finite(record), allow_nan=False) + "\n" for record in history)


def read_run(folder: Path) -> dict[str, Any]:
    """Read ``run.json`` and the history of a run folder."""
    try:
        facts = json.loads((folder / "run.json").read_text("utf-8"))
        lines = (folder / "history.jsonl").read_text("utf-8").splitlines()
        history = [json.loads(line) for line in lines]
    except FileNotFoundError as failure:
        raise ModelError(
            f"{folder} is not a run folder: {Path(failure.filename).name} is missing. "
            f"{what_to_do(folder)}"
        ) from None
    except (OSError, ValueError) as failure:
        raise ModelError(f"The run in {folder} cannot be read: {failure}.") from failure
    try:
        RunFacts.model_validate(facts)
    except ValidationError as failure:
        raise damaged("run", folder, f"run.json {in_words(failure)}") from None
    for number, record in enumerate(history, start=1):
        _check_record(record, number, folder)
    return {**facts, "history": history}


def read_reading(folder: Path) -> Reading:
    """Tell how the data of a run were read; nothing of a folder that is a model alone."""
    path = folder / "run.json"
    if not path.is_file():
        return Reading()
    return RunFacts.model_validate(read_run(folder)).reading


def _check_record(record: Any, number: int, folder: Path) -> None:
    if not isinstance(record, dict) or not isinstance(record.get("event"), str):
        raise damaged("run", folder, "every line of history.jsonl must state its event")
    if record["event"] in RECORDS:
        try:
            RECORDS[record["event"]].model_validate(record)
        except ValidationError as failure:
            what = f"line {number} of history.jsonl {in_words(failure)}"
            raise damaged("run", folder, what) from None


def seconds_by_phase(history: Sequence[Record]) -> dict[str, float]:
    """Add up the time of the epochs by phase."""
    seconds: dict[str, float] = {}
    for record in history:
        if record["event"] == "epoch":
            seconds[record["phase"]] = seconds.get(record["phase"], 0.0) + record["seconds"]
    return {phase: round(total, 3) for phase, total in seconds.items()}
