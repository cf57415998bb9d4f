"""A run that has not ended: its checkpoints, and what it takes to go on with it.

It lies beside the run folder that it is to become, under the same name with ``.unfinished``.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

from dwcl.errors import FileError, ModelError
from dwcl.files import make_folder, write_json

SUFFIX = ".unfinished"
JOB_FILE = "job.json"
FORMAT_VERSION = 1


class Unfinished:
    """The folder of a run that is under way or was broken off.

    Parameters
    ----------
    run : Path
        The run folder that is to come; the name of this folder itself will do.
    """

    def __init__(self, run: Path) -> None:
        self.run = run.with_name(run.name.removesuffix(SUFFIX))
        self.folder = self.run.with_name(f"{self.run.name}{SUFFIX}")
        self._parents_made: list[Path] = []

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is something to go on from."""
        return any(self.folder.glob("checkpoint-*.json"))

    def begin(self, job: dict[str, Any], *, replace: bool = False) -> None:
        """Note what is to be done: everything that reading the data and fitting them takes."""
        if self.has_checkpoint and not replace:
            raise FileError(
                f"An unfinished run lies in {self.folder}. Go on with it: dwcl resume {self.run}; "
                "or start anew with --force, which discards it."
            )
        self.discard()
        self._parents_made = [path for path in self.folder.parents if not path.exists()]
        make_folder(self.folder)
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
        if (self.folder / JOB_FILE).is_file() or not self.folder.exists():
            shutil.rmtree(self.folder, ignore_errors=True)
        elif any(self.folder.iterdir()):
            raise FileError(
                f"The folder {self.folder} is not an unfinished run of dwcl, so it is not "
                "replaced. Give another --out."
            )
        for parent in self._parents_made:
            with contextlib.suppress(OSError):  # it holds something by now
                parent.rmdir()


def what_to_do(run: Path) -> str:
    """Advise somebody who takes for a finished run what is none."""
    if Unfinished(run).has_checkpoint:
        return f"The run has not ended; go on with it: dwcl resume {Unfinished(run).run}"
    return "Give the folder that 'dwcl fit' wrote."
