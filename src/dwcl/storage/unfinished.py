"""A run that has not ended: its checkpoints, and what it takes to go on with it.

It lies beside the run folder that it is to become, under the same name with ``.unfinished``.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dwcl.errors import FileError, ModelError
from dwcl.files import locked, write_json

SUFFIX = ".unfinished"
JOB_FILE = "job.json"
LOCK_FILE = "run.lock"
"""Held for the whole of a run; the checkpoints have a lock of their own for the fit alone."""
FORMAT_VERSION = 1


class Unfinished:
    """The folder of a run that is under way or was broken off.

    Parameters
    ----------
    run : Path
        The run folder that is to come; the name of this folder itself will do.
    """

    def __init__(self, run: Path) -> None:
        if run.name in ("", ".."):  # a folder that is named by where it is
            run = run.resolve()
        self.run = run.parent / run.name.removesuffix(SUFFIX)
        self.folder = self.run.parent / f"{self.run.name}{SUFFIX}"
        self._parents_made: list[Path] = []

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is something to go on from."""
        return any(self.folder.glob("checkpoint-*.json"))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other runs out for as long as this one takes, until its run folder is written.

        A folder without anything to go on from is removed in the end.
        """
        self._check_own()
        self._parents_made = [path for path in self.folder.parents if not path.exists()]
        with locked(self.folder / LOCK_FILE):
            try:
                yield
            finally:
                if not self.has_checkpoint:
                    self.discard()

    def begin(self, job: dict[str, Any], *, replace: bool = False) -> None:
        """Note what is to be done: everything that reading the data and fitting them takes.

        To be called while the folder is :meth:`held`.
        """
        if self.has_checkpoint and not replace:
            raise FileError(
                f"An unfinished run lies in {self.folder}. Go on with it: dwcl resume {self.run}; "
                "or start anew with --force, which discards it."
            )
        self._empty()
        write_json(self.folder / JOB_FILE, {"format": FORMAT_VERSION, **job})

    def job(self) -> dict[str, Any]:
        """Read what was to be done."""
        path = self.folder / JOB_FILE
        if not path.is_file():
            done = " It has ended already." if (self.run / "run.json").is_file() else ""
            raise ModelError(
                f"There is no unfinished run {self.run}: {path} is missing.{done} "
                "Give the folder that 'dwcl fit' was to write."
            )
        try:
            job: dict[str, Any] = json.loads(path.read_text("utf-8"))
            version = job.pop("format")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as failure:
            raise ModelError(f"{path} cannot be read: {failure}. Fit again.") from failure
        if version != FORMAT_VERSION:
            raise ModelError(
                f"{path} has format {version}; this version of dwcl reads format "
                f"{FORMAT_VERSION}. Resume with the version that began the run."
            )
        return job

    def discard(self) -> None:
        """Remove the folder, and those that were made to hold it if nothing else is in them."""
        with contextlib.suppress(OSError):
            self._empty()
            # The lock goes last: who comes next finds it held, or a folder that is empty.
            (self.folder / LOCK_FILE).unlink(missing_ok=True)
        for folder in (self.folder, *self._parents_made):
            with contextlib.suppress(OSError):  # it holds something by now
                folder.rmdir()

    def _empty(self) -> None:
        # The job goes last: without it, what a killed process leaves would be nobody's.
        for path in sorted(self.folder.iterdir(), key=lambda path: path.name == JOB_FILE):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != LOCK_FILE:
                path.unlink()

    def _check_own(self) -> None:
        """Refuse a folder with something else in it than what a run leaves there."""
        if self.folder.is_dir():
            found = {path.name for path in self.folder.iterdir()} - {LOCK_FILE}
            # A process that was killed while it noted the job leaves half of the note.
            if JOB_FILE in found or all(name.startswith(f".{JOB_FILE}.") for name in found):
                return
        elif not self.folder.exists():
            return
        raise FileError(
            f"The folder {self.folder} is not an unfinished run of dwcl, so it is not "
            "replaced. Give another --out."
        )


def what_to_do(run: Path) -> str:
    """Advise somebody who takes for a finished run what is none."""
    if Unfinished(run).has_checkpoint:
        return f"The run has not ended; go on with it: dwcl resume {Unfinished(run).run}"
    return "Give the folder that 'dwcl fit' wrote."
