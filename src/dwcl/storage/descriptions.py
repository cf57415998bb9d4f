"""The form of the JSON files of models and runs: what a reader relies on, checked when read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dwcl.errors import ModelError

Natural = Annotated[int, Field(ge=0)]
Size = Annotated[int, Field(ge=1)]


class ViewDescription(BaseModel):
    """One view of a model."""

    name: str
    width: Size
    scaling: str


class PairWeight(BaseModel):
    """The weight of a pair of views, with the number of terms that share it."""

    views: list[str]
    weight: float | None
    terms: Size


class Results(BaseModel):
    """Fitted attributes that are plain values; a method has those of them that it knows.

    Those of one method alone are named by its ``saved_results``.
    """

    model_config = ConfigDict(extra="allow")

    feature_widths_: tuple[Size, ...]
    best_view_: str | None = None
    view_quality_: dict[str, float | None] | None = None
    pair_weights_: list[dict[str, Any]] | None = None
    inertia_: float | None = None
    precision_: str | None = None
    notes_: list[str] = []
    view_columns_: dict[str, tuple[str, ...]] = {}


class ModelDescription(BaseModel):
    """What ``model.json`` states beside its format."""

    method: str
    settings: dict[str, Any]
    views: Annotated[list[ViewDescription], Field(min_length=1)]
    seed: Natural
    results: Results
    tensors: dict[str, list[Natural]]


class DataFacts(BaseModel):
    """What is known of the data of a run."""

    source: str | None
    n_samples: Natural
    views: dict[str, Size]


class Reading(BaseModel):
    """How the data of a run were read, as its user said it."""

    views: str | None = None
    labels: str | None = None
    labels_in_file: bool = False
    transpose: bool | None = None
    id_column: str | None = None
    observed: str | None = None


class RunFacts(BaseModel):
    """What every ``run.json`` states; the rest depends on method and data."""

    model_config = ConfigDict(extra="allow")

    dwcl: str
    method: str
    seed: Natural
    n_clusters: Size
    data: DataFacts
    cluster_sizes: list[Natural]
    notes: list[str]
    precision: str
    device: str
    threads: Size
    versions: dict[str, str]
    settings: dict[str, Any] = {}
    seconds_total: float | None = None
    best_view: str | None = None
    view_quality: dict[str, float | None] | None = None
    pair_weights: list[PairWeight] | None = None
    reading: Reading = Reading()


class Epoch(BaseModel):
    """A line of the history on an epoch."""

    phase: str
    epoch: Size
    loss: float


class Assessment(BaseModel):
    """A line of the history on an assessment of the views."""

    iteration: Natural
    best_view: str
    quality: list[float | None]


RECORDS: dict[str, type[BaseModel]] = {"epoch": Epoch, "assessment": Assessment}
"""The events of which a reader relies on more than the name."""


def in_words(failure: ValidationError) -> str:
    """Word what is wrong with a file: all that is missing, or else the first wrong value."""
    errors = failure.errors()
    missing = [".".join(map(str, e["loc"])) for e in errors if e["type"] == "missing"]
    if missing:
        return f"does not state {', '.join(missing)}"
    place = ".".join(map(str, errors[0]["loc"])) or "the whole"
    reason = errors[0]["msg"]
    return f"is garbled at {place} ({reason[:1].lower()}{reason[1:]})"


def damaged(kind: str, folder: Path, what: str) -> ModelError:
    """Make the error for a model or a run whose files are not what was written."""
    return ModelError(
        f"The {kind} in {folder} is damaged: {what}. Restore the folder from a copy, or fit again."
    )
