"""A fitted model on disk: numbers in safetensors, everything else in JSON, nothing executable.

``model.json`` states the format's version, the method with its settings, the views, the scaling
and the shape of every tensor; ``model.safetensors`` holds the networks, the scaling's figures, the
centres and the labels. Both are checked against each other when they are read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

import dwcl
from dwcl.data.scaling import Scaling
from dwcl.errors import ModelError, SettingError
from dwcl.files import make_folder, write_json, write_tensors
from dwcl.methods.base import DeepMultiViewClusterer
from dwcl.methods.registry import get_method
from dwcl.methods.settings import check_settings, plain_settings
from dwcl.methods.soft import SoftClusterer
from dwcl.storage.descriptions import ModelDescription, Results, damaged, in_words
from dwcl.storage.unfinished import what_to_do
from dwcl.streams import RandomStreams

FORMAT_VERSION = 1
MODEL_FILE = "model.json"
TENSOR_FILE = "model.safetensors"


def save_model(model: DeepMultiViewClusterer, folder: str | Path) -> Path:
    """Write a fitted model into a folder, which is made if need be.

    Returns
    -------
    Path
        The folder.
    """
    check_is_fitted(model)
    folder = Path(folder)
    make_folder(folder)
    tensors = _tensors_of(model)
    description = {
        "format": FORMAT_VERSION,
        "dwcl": dwcl.__version__,
        "method": model.method_name,
        "settings": settings_of(model),
        "views": [
            {"name": name, "width": width, "scaling": model.scaling_.kinds[name]}
            for name, width in zip(model.view_names_, model.view_widths_, strict=True)
        ],
        "seed": model.seed_,
        "results": {
            name: getattr(model, name)
            for name in (*Results.model_fields, *model.saved_results)
            if hasattr(model, name)
        },
        "tensors": {name: list(tensor.shape) for name, tensor in sorted(tensors.items())},
    }
    write_tensors(folder / TENSOR_FILE, tensors)
    write_json(folder / MODEL_FILE, description)
    return folder


def load_model(folder: str | Path) -> DeepMultiViewClusterer:
    """Read a model that :func:`save_model` wrote; it predicts as the original did.

    It has the networks, the scaling, the centres, the labels and the figures of the fit. It lacks
    what only the fit itself can tell or what is large: ``embedding_`` (``transform`` of the
    training data gives it again), ``history_``, ``assessments_``, ``baseline_labels_`` and
    ``sample_ids_``. A function that was given as a setting is at its default.
    """
    folder = Path(folder)
    description = _read_description(folder)
    method = get_method(description.method)
    try:
        settings = check_settings(method, _known_settings(description.settings))
        model = method(**settings)
    except (TypeError, SettingError) as failure:
        raise damaged("model", folder, f"{MODEL_FILE}: {failure}") from failure
    model.view_names_ = tuple(view.name for view in description.views)
    model.view_widths_ = tuple(view.width for view in description.views)
    model.n_features_in_ = sum(model.view_widths_)
    model.seed_ = description.seed
    results = description.results
    own = set(results.model_extra or ()) - set(method.saved_results)
    for name in {*results.model_fields_set, "view_columns_"} - own:
        setattr(model, name, getattr(results, name))
    kinds = {view.name: view.scaling for view in description.views}
    tensors = _read_tensors(folder, description.tensors)
    _restore(model, kinds, tensors, folder)
    return model


def _tensors_of(model: DeepMultiViewClusterer) -> dict[str, Tensor]:
    tensors = {f"networks.{name}": t for name, t in model.networks_.state_dict().items()}
    for name, array in model.scaling_.state().items():
        tensors[f"scaling.{name}"] = torch.from_numpy(np.ascontiguousarray(array))
    if hasattr(model, "cluster_centers_"):
        tensors["centres"] = torch.from_numpy(model.cluster_centers_)
    tensors["labels"] = torch.from_numpy(model.labels_.astype(np.int32))
    return tensors


def _restore(
    model: DeepMultiViewClusterer, kinds: dict[str, str], tensors: dict[str, Tensor], folder: Path
) -> None:
    """Put the tensors into a model whose settings and views are known."""
    generators = [RandomStreams(0).torch("networks", name) for name in model.view_names_]
    networks = model._build(model.view_widths_, generators)
    try:
        networks.load_state_dict(_under("networks.", tensors))
        scaling = {name: tensor.numpy() for name, tensor in _under("scaling.", tensors).items()}
        model.scaling_ = Scaling.from_state(kinds, scaling)
        if not isinstance(model, SoftClusterer):
            model.cluster_centers_ = tensors["centres"].numpy()
        model.labels_ = tensors["labels"].numpy().astype(np.int64)
    except (RuntimeError, KeyError, ValueError) as failure:
        raise damaged(
            "model", folder, str(failure).replace("\n", " ").replace("\t", "")
        ) from failure
    model.networks_ = networks


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def _read_description(folder: Path) -> ModelDescription:
    path = folder / MODEL_FILE
    if not path.is_file():
        raise ModelError(
            f"{folder} is not a model folder: it has no {MODEL_FILE}. {what_to_do(folder)}"
        )
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
        version = description["format"]
    except (ValueError, KeyError, TypeError) as failure:
        raise damaged("model", folder, f"{MODEL_FILE} is not a model's description") from failure
    if version != FORMAT_VERSION:
        raise ModelError(
            f"The model in {folder} has format {version}; this version of dwcl "
            f"({dwcl.__version__}) reads format {FORMAT_VERSION}. Install the version that wrote "
            f"it, {description.get('dwcl', 'unknown')}, or a newer one."
        )
    try:
        return ModelDescription.model_validate(description)
    except ValidationError as failure:
        raise damaged("model", folder, f"{MODEL_FILE} {in_words(failure)}") from None


def _read_tensors(folder: Path, expected: dict[str, list[int]]) -> dict[str, Tensor]:
    path = folder / TENSOR_FILE
    if not path.is_file():
        raise damaged("model", folder, f"{TENSOR_FILE} is missing")
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (SafetensorError, OSError) as failure:
        raise damaged("model", folder, f"{TENSOR_FILE} cannot be read ({failure})") from failure
    for name, shape in expected.items():
        if name not in tensors:
            raise damaged("model", folder, f"the tensor '{name}' is missing from {TENSOR_FILE}")
        if list(tensors[name].shape) != shape:
            raise damaged(
                "model",
                folder,
                f"the tensor '{name}' has shape {list(tensors[name].shape)} where "
                f"{shape} is expected",
            )
    return tensors


def settings_of(model: DeepMultiViewClusterer) -> dict[str, Any]:
    """Give the settings as JSON values: a function by its name, a generator by the seed it gave."""
    settings = plain_settings(model.get_params(deep=False))
    return {**settings, "random_state": model.seed_}


def _known_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Choose the settings to build the model with; functions of the user stay at their defaults.

    They have a part in fitting only, and code is not loaded from a file.
    """
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in settings.items()
        if not (isinstance(value, dict) and set(value) == {"<function>"})
    }
