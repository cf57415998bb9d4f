"""The catalogue: which data sets dwcl knows by name, where they lie and what they hold.

The entries are a data file, ``catalogue.json``, beside this module. To add a data set, add an
entry there; nothing else needs to know.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from importlib import resources
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dwcl.errors import SettingError, nearest

Kind = Literal["download", "archive", "import", "embedded", "build"]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Mirror(_Record):
    """One public place of a file.

    Attributes
    ----------
    url : str
        Address of the raw file.
    repository, commit : str or None
        The public repository and the commit that the address points into.
    """

    url: str
    repository: str | None = None
    commit: str | None = None


class Entry(_Record):
    """One data set of the catalogue: a file of known bytes, or a set of known shape.

    Attributes
    ----------
    name : str
        The name that finds it, in lower case.
    kind : str
        How one comes by it: ``download``; ``archive`` (downloaded, then extracted by the user);
        ``import`` (from a local file only); ``embedded`` in dwcl; ``build`` (made by dwcl).
    title : str
        What it is, in one line.
    aliases : tuple of str
        Further names; case and separators never matter.
    filename : str or None
        Name in the storage folder; None where the user's file decides the ending.
    sha256, bytes : str and int, or None
        Hash and size of the file.
    mirrors : tuple of Mirror
        Where the file lies, in the order in which to try.
    layout : str or None
        What the variables in the file are.
    n, widths, classes : int, tuple of int, int, or None
        Samples, features of each view and classes, where known.
    shape_from : str or None
        How they are known: ``file`` (counted in this very file), ``paper`` (the tables of the
        paper), ``published`` (commonly given for this data set; the file was not opened).
    paper : str or None
        Name in the paper, for its own data sets.
    homepage : str or None
        Page of the authors who share it, where there is no address of the file.
    note : str or None
        What a user should know.
    extra_column : bool
        The shared file may carry one more column in every view, the last, that is not a feature.
    """

    name: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    kind: Kind
    title: str
    aliases: tuple[str, ...] = ()
    filename: str | None = None
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    bytes: int | None = Field(default=None, gt=0)
    mirrors: tuple[Mirror, ...] = ()
    layout: str | None = None
    n: int | None = Field(default=None, gt=0)
    widths: tuple[int, ...] | None = None
    classes: int | None = Field(default=None, gt=0)
    shape_from: Literal["file", "paper", "published"] | None = None
    paper: str | None = None
    homepage: str | None = None
    note: str | None = None
    extra_column: bool = False

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        needed: dict[Kind, tuple[str, ...]] = {
            "download": ("filename", "sha256", "bytes", "mirrors"),
            "archive": ("filename", "sha256", "bytes", "mirrors"),
            "import": ("n", "widths", "classes"),
            "build": ("filename",),
            "embedded": (),
        }
        missing = [name for name in needed[self.kind] if not getattr(self, name)]
        if missing:
            raise ValueError(f"'{self.name}' is of kind {self.kind} and lacks {missing}")
        return self

    @property
    def urls(self) -> tuple[str, ...]:
        """Addresses of the file, in the order in which to try."""
        return tuple(mirror.url for mirror in self.mirrors)

    @property
    def source(self) -> str:
        """What names this entry wherever data are asked for."""
        return f"{PREFIX}{self.name}"

    @property
    def shape(self) -> str:
        """What is known of the shape, in words."""
        return shape_in_words(self.n, self.widths, self.classes)


class Catalogue(_Record):
    """All entries, found by any of their names."""

    entries: tuple[Entry, ...]

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        taken: dict[str, str] = {}
        for entry in self.entries:
            for name in {_key(name) for name in (entry.name, *entry.aliases)}:
                other = taken.setdefault(name, entry.name)
                if other != entry.name:
                    raise ValueError(f"'{entry.name}' and '{other}' share the name '{name}'")
        files = [entry.filename for entry in self.entries if entry.filename]
        if len(set(files)) < len(files):
            raise ValueError("two entries have the same file name")
        return self

    @cached_property
    def by_key(self) -> Mapping[str, Entry]:
        """Every name and alias, freed of case and separators."""
        return {
            _key(name): entry for entry in self.entries for name in (entry.name, *entry.aliases)
        }


PREFIX = "catalogue:"
"""What marks a name of the catalogue where a path could stand as well."""


@lru_cache(maxsize=1)
def catalogue() -> Catalogue:
    """Read the catalogue that comes with dwcl."""
    text = resources.files("dwcl.data").joinpath("catalogue.json").read_text(encoding="utf-8")
    return Catalogue.model_validate_json(text)


def entries() -> tuple[Entry, ...]:
    """All data sets of the catalogue, ordered by name."""
    return catalogue().entries


def find(name: str | Entry) -> Entry:
    """Find an entry by name or alias, whatever the case and the separators.

    ``Scene_15``, ``scene-15`` and ``catalogue:scene15`` are the same. An entry is returned as
    it is, so that every function that takes a name takes an entry too.

    Raises
    ------
    SettingError
        If there is none; the message names the nearest.
    """
    if isinstance(name, Entry):
        return name
    asked = name.removeprefix(PREFIX)
    entry = catalogue().by_key.get(_key(asked))
    if entry is None:
        hint = nearest(asked.casefold(), [known.name for known in entries()])
        raise SettingError(f"There is no data set '{asked}' in the catalogue. {hint}")
    return entry


def shape_in_words(
    n: int | None, widths: tuple[int, ...] | None, classes: int | None = None
) -> str:
    """Word a shape: samples, widths of the views, classes; what is unknown is left out."""
    parts = [
        None if n is None else f"{n:,} samples",
        None if widths is None else f"views of {', '.join(map(str, widths))}",
        None if classes is None else f"{classes} classes",
    ]
    return " · ".join(part for part in parts if part) or "shape unknown until it is opened"


def _key(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())
