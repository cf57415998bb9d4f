"""What a fit takes, and where its data come from: kept on disk to go on with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from dwcl.cli.console import messages
from dwcl.cli.options import load_data
from dwcl.errors import SettingError

if TYPE_CHECKING:
    from dwcl.data.multiview import MultiView


@dataclass(frozen=True)
class Source:
    """Where the data of a fit come from, as the command line said it."""

    data: str
    views: str | None = None
    labels: str | None = None
    transpose: bool | None = None
    id_column: str | None = None
    observed: str | None = None

    def load(self, *, say: bool) -> MultiView:
        """Read the data, and say what was understood."""
        given = load_data(
            self.data,
            self.views,
            self.labels,
            self.transpose,
            self.id_column,
            self.observed,
            progress=say,
        )
        if say:
            for line in given.provenance.layout:
                messages().print(escape(line), soft_wrap=True)
        return given

    @property
    def has_label_file(self) -> bool:
        """Whether the labels lie in a file of their own."""
        from dwcl.data.readers.labels import SUFFIXES

        named = self.labels or ""
        return named.lower().endswith(SUFFIXES) and Path(named).expanduser().is_file()

    def reading(self) -> dict[str, Any]:
        """State how the data are read, for commands that take others of the kind to the model."""
        labels = self.labels
        if labels is not None and self.has_label_file:
            labels = str(Path(labels).expanduser().absolute())
        return {
            "views": self.views,
            "labels": labels,
            "labels_in_file": self.has_label_file,
            "transpose": self.transpose,
            "id_column": self.id_column,
            "observed": self.observed and str(Path(self.observed).expanduser().absolute()),
        }

    def seen_from(self, folder: Path) -> Source:
        """Return the same source for somebody who stands elsewhere than in `folder`."""
        source = self
        if not self.data.startswith("catalogue:"):
            source = replace(source, data=str(folder / Path(self.data).expanduser()))
        if self.labels is not None and (folder / Path(self.labels).expanduser()).is_file():
            source = replace(source, labels=str(folder / Path(self.labels).expanduser()))
        if self.observed:
            source = replace(source, observed=str(folder / Path(self.observed).expanduser()))
        return source


def as_the_fit_was_told(run: Path, said: Source) -> Source:
    """Complete what a command line says of its data by what was said to the fit of the run.

    An option that is given wins, also an empty one, which says that nothing is to be taken over.
    A file of labels or of missing views is not taken over: it belongs to the data of the fit.
    """
    from dwcl.storage.run import read_reading

    told = read_reading(run)
    labels = None if told.labels_in_file else told.labels
    return Source(
        data=said.data,
        views=_chosen(said.views, told.views),
        labels=_chosen(said.labels, labels),
        transpose=told.transpose if said.transpose is None else said.transpose,
        id_column=_chosen(said.id_column, told.id_column),
        observed=said.observed,
    )


def _chosen(said: str | None, told: str | None) -> str | None:
    return (told if said is None else said) or None


@dataclass(frozen=True)
class Job:
    """Everything that a fit takes beside its data: enough to go on with it in another process."""

    source: Source
    n_clusters: int
    method: str
    settings: Mapping[str, Any]
    recipe: str | None
    checkpoint_every: float = 300.0
    replace: bool = False

    def as_plain(self) -> dict[str, Any]:
        """Return plain values; a relative path is kept with the folder that it starts from."""
        return {**asdict(self), "started_in": str(Path.cwd())}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], origin: Path) -> Job:
        """Make the job of plain values, paths seen from where it was started.

        `origin` is the folder that the values were read from, for the message if they are none.
        """
        from pydantic import TypeAdapter, ValidationError

        from dwcl.methods.registry import get_method
        from dwcl.methods.settings import check_settings
        from dwcl.storage.descriptions import damaged, in_words

        values = dict(plain)
        try:
            started_in = TypeAdapter(Path).validate_python(values.pop("started_in", "."))
            job = TypeAdapter(cls).validate_python(values)
            settings = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in job.settings.items()
            }
            settings = check_settings(get_method(job.method), settings)
        except ValidationError as failure:
            raise damaged("run", origin, f"job.json {in_words(failure)}") from None
        except SettingError as failure:
            raise damaged("run", origin, f"job.json: {failure}") from failure
        return replace(job, source=job.source.seen_from(started_in), settings=settings)
