"""What the tables of the paper print, number by number.

Each table is a file in the folder ``numbers``, in long form: one record per number. Data sets have
their names of the catalogue there, methods theirs of the registry.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from types import MappingProxyType
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

from dwcl.data.catalogue import entries
from dwcl.errors import SettingError, nearest

Unit = Literal["percent", "tenths", "seconds", "count"]
_FACTORS: Mapping[Unit, float] = {"percent": 0.01, "tenths": 0.1, "seconds": 1.0, "count": 1.0}
_ARROWS = {"up": "↑", "down": "↓"}

METHOD_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "bsv": "BSV",
        "dcp": "DCP",
        "dsmvc": "DSMVC",
        "dsimvc": "DSIMVC",
        "mflvc": "MFLVC",
        "dealmvc": "DualMVC",
        "cvcl": "CVCL",
        "sem": "SEM",
        "accmvc": "ACCMVC",
        "dcmvc": "DCMVC",
        "dwcl": "DWCL",
    }
)
"""What the paper calls the methods, by their names here. Its DualMVC is DealMVC to its authors."""

_STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class Cell:
    """A place in a table of the paper.

    Attributes
    ----------
    table : str
        Name of the table's file.
    dataset : str
        Name of the catalogue.
    metric : str
        What is measured: a score, or a parameter of DWCL by its name.
    method : str or None
        Name of the registry; None for what is said of the data alone.
    variant : str or None
        Which variant of the method, where a table has several.
    view : int or None
        Position of the view, from 1, where a table goes by views.
    """

    table: str
    dataset: str
    metric: str
    method: str | None = None
    variant: str | None = None
    view: int | None = None

    @property
    def row(self) -> str | None:
        """The variant, or else the method."""
        return self.variant or self.method


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class PaperNumber(Cell):
    """A number of the paper, as printed, and its place.

    Attributes
    ----------
    value : float
        The number.
    unit : str
        ``percent``, ``tenths`` (printed ten times as large), ``seconds`` or ``count``.
    std : float or None
        Standard deviation over the runs, where there is one.
    arrow : str or None
        Whether an improvement is one (``up``) or a loss (``down``); the number has no sign.
    """

    value: float
    unit: Unit
    std: float | None = None
    arrow: Literal["up", "down"] | None = None

    @property
    def amount(self) -> float:
        """The number in the units of dwcl: shares of 1, seconds, counts; a loss is negative."""
        sign = -1.0 if self.arrow == "down" else 1.0
        return sign * self.value * _FACTORS[self.unit]

    @property
    def spread(self) -> float | None:
        """The standard deviation in the units of dwcl."""
        return None if self.std is None else self.std * _FACTORS[self.unit]

    def __str__(self) -> str:
        if self.unit == "count":
            return f"{self.value:,.0f}"
        spread = "" if self.std is None else f" ± {self.std:.1f}"
        arrow = "" if self.arrow is None else f" {_ARROWS[self.arrow]}"
        return f"{self.value:.1f}{spread}{arrow}"


@dataclass(frozen=True, kw_only=True, config=_STRICT)
class PaperTable:
    """A table of the paper.

    Attributes
    ----------
    name : str
        Name of its file.
    label : str
        Its label in the paper's source.
    title : str
        What it shows.
    numbers : tuple of PaperNumber
        All its numbers, in the order in which it prints them.
    blanks : tuple of Cell
        The places where it prints a dash.
    """

    name: str
    label: str
    title: str
    numbers: tuple[PaperNumber, ...]
    blanks: tuple[Cell, ...] = ()

    @property
    def datasets(self) -> tuple[str, ...]:
        """Its data sets, in its order."""
        return tuple(dict.fromkeys(number.dataset for number in self.numbers))

    @property
    def rows(self) -> tuple[str, ...]:
        """Its variants, or else its methods, in its order."""
        return tuple(dict.fromkeys(number.row for number in self.numbers if number.row))

    @property
    def metrics(self) -> tuple[str, ...]:
        """What it measures, in its order."""
        return tuple(dict.fromkeys(number.metric for number in self.numbers))

    def number(
        self, dataset: str, row: str | None, metric: str, view: int | None = None
    ) -> PaperNumber | None:
        """Return the number at a place; None where the paper has a dash, or nothing.

        Parameters
        ----------
        dataset : str
            One of ``datasets``.
        row : str or None
            One of ``rows``: a variant, or a method where the table has no variants.
        metric : str
            One of ``metrics``.
        view : int, optional
            Position of the view, from 1, in tables by view.
        """
        self._expect("data set", dataset, self.datasets)
        self._expect("metric", metric, self.metrics)
        if row is not None:
            self._expect("row", row, self.rows)
        return self._by_place.get((dataset, row, metric, view))

    def _expect(self, what: str, name: str, known: Iterable[str]) -> None:
        if name not in known:
            raise SettingError(
                f"The paper's table '{self.name}' has no {what} '{name}'. {nearest(name, known)}"
            )

    @functools.cached_property
    def _by_place(self) -> dict[tuple[str, str | None, str, int | None], PaperNumber]:
        return {(n.dataset, n.row, n.metric, n.view): n for n in self.numbers}


@functools.cache
def tables() -> Mapping[str, PaperTable]:
    """Return all tables by the names of their files."""
    folder = resources.files("dwcl.experiments.paper").joinpath("numbers")
    files = {file.name[:-5]: file for file in folder.iterdir() if file.name.endswith(".toml")}
    return MappingProxyType(
        {name: read_table(name, files[name].read_text("utf-8")) for name in sorted(files)}
    )


def table(name: str) -> PaperTable:
    """Return the table of that name."""
    if name not in tables():
        raise SettingError(f"The paper has no table '{name}'. {nearest(name, tables())}")
    return tables()[name]


def read_table(name: str, text: str) -> PaperTable:
    """Read a file of numbers; a record takes its unit from its metric."""
    content = tomllib.loads(text)
    units: dict[str, Unit] = content.pop("units")
    for record in content["numbers"]:
        record |= {"table": name, "unit": units.get(record.get("metric"))}
    for record in content.get("blanks", ()):
        record["table"] = name
    fields: dict[str, Any] = {"name": name, **content}
    return TypeAdapter(PaperTable).validate_python(fields)


def dataset_names() -> Mapping[str, str]:
    """Return what the paper calls its data sets, by their names in the catalogue."""
    return {entry.name: entry.paper for entry in entries() if entry.paper}
